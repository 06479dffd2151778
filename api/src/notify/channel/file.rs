//! `file`: one line of JSON for each notification, behind those that are there. For trying channels out, and for whoever reads files.

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
        // In one write, so that several servers may write to one file.
        let write = move || {
            let mut file = open(&path)?;
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => Sent::Taken("written".into()),
            Ok(Err(error)) => Sent::Unreached(format!("it cannot be written to: {error}")),
            Err(error) => Sent::Unreached(format!("it was not written: {error}")),
        }
    }
}

/// The file, made for its owner alone if there is none. Nothing but a file is opened: a pipe would keep whoever writes waiting.
fn open(path: &Path) -> io::Result<fs::File> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("it is no file"));
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
