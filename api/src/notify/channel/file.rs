//! `file`: appends one line of JSON per notification, for tests of channels and for programs that read files.

use crate::{
    config,
    notify::channel::{Message, Sent, webhook::event},
};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

pub(in crate::notify) struct LogFile {
    path: PathBuf,
}

impl LogFile {
    pub(in crate::notify) fn of(settings: &config::Channel) -> Result<Self, String> {
        let path = PathBuf::from(&settings.path);
        open(&path).map_err(|error| format!("path: {}: {error}", settings.path))?;
        Ok(Self { path })
    }

    pub(in crate::notify) async fn send(&self, message: &Message<'_>) -> Sent {
        let (path, line) = (self.path.clone(), format!("{}\n", event(message)));
        // A single write, so that several servers can write to one file.
        let write = move || {
            let mut file = open(&path)?;
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => Sent::Taken("written".into()),
            Ok(Err(error)) => Sent::Unreached(format!("cannot write the file: {error}")),
            Err(error) => Sent::Unreached(format!("cannot write the file: {error}")),
        }
    }
}

/// Opens the file; a new one is only for its owner. Rejects anything but regular files, because a pipe could block the writer.
fn open(path: &Path) -> io::Result<fs::File> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
