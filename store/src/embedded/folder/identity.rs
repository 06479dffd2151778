//! The file `PLACE`, which shows whether a folder is the original of its store or a copy.
//!
//! It contains its own inode and birth time, so a copy contains those of the original. A renamed folder, or a disk
//! attached to another machine, has the same files. Invariant: a store with commits is held if its folder cannot
//! prove that it is the original; a missing or damaged file proves nothing.

use super::super::journal::segment::sync_folder;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// The result of checking the file `PLACE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Provenance {
    /// The folder is the place of its store.
    Original,
    /// The file was copied.
    Copied,
    /// There is no file.
    Unmarked,
    /// The file is unreadable, for this reason.
    Unreadable(String),
}

fn path(dir: &Path) -> PathBuf {
    dir.join("PLACE")
}

/// Returns the identity of this file.
fn identity(file: &File) -> io::Result<String> {
    let metadata = file.metadata()?;
    // Not every file system stores the birth time; then only the inode counts.
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or(0, |born| born.as_nanos());
    Ok(format!("inode {} born {born}\n", metadata.ino()))
}

/// Returns true if `text` has the form that [`record`] writes.
fn is_identity(text: &str) -> bool {
    let number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u128>().is_ok());
    let mut words = text.split_whitespace();
    words.next() == Some("inode")
        && number(words.next())
        && words.next() == Some("born")
        && number(words.next())
        && words.next().is_none()
}

/// Compares the file `PLACE` in `dir` with its content. Changes nothing: see [`record`].
pub(crate) fn provenance(dir: &Path) -> Provenance {
    let read = || -> io::Result<(String, Vec<u8>)> {
        let file = File::open(path(dir))?;
        Ok((identity(&file)?, fs::read(path(dir))?))
    };
    match read() {
        Ok((is, said)) => match String::from_utf8(said) {
            Ok(said) if said == is => Provenance::Original,
            Ok(said) if is_identity(&said) => Provenance::Copied,
            Ok(said) if said.is_empty() => Provenance::Unreadable("it is empty".into()),
            Ok(_) | Err(_) => Provenance::Unreadable("it does not name a file".into()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Provenance::Unmarked,
        Err(error) => Provenance::Unreadable(error.to_string()),
    }
}

impl Provenance {
    /// Returns why a store with commits in `dir` is held; `None` in its own place.
    pub(crate) fn doubt(&self, dir: &Path) -> Option<String> {
        let dir = dir.display();
        let why = match self {
            Self::Original => return None,
            Self::Copied => format!("{dir} is a copy of a store: it was restored, or moved"),
            Self::Unmarked => {
                format!(
                    "{dir} may be a copy of a store: the file PLACE, which marks the original folder, is missing"
                )
            }
            Self::Unreadable(why) => {
                format!(
                    "{dir} may be a copy of a store: the file PLACE, which marks the original folder, cannot be read: {why}"
                )
            }
        };
        Some(format!(
            "{why}; `tenure store held` shows the pending work, and `tenure store release --since SINCE --reason REASON` \
             releases the store"
        ))
    }
}

/// Marks this folder as the original of its store. Durable when it returns.
pub(crate) fn record(dir: &Path) -> io::Result<()> {
    let file = path(dir);
    // Written in place: a renamed file would have another inode.
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&file);
    let new = !file.exists();
    let mut opened = match open() {
        Ok(opened) => opened,
        Err(_) if !new => {
            // A folder or a foreign file: it is renamed for inspection.
            fs::rename(&file, dir.join("PLACE.unreadable"))?;
            open()?
        }
        Err(error) => return Err(error),
    };
    let is = identity(&opened)?;
    if fs::read(&file)? != is.as_bytes() {
        opened.set_len(0)?;
        opened.write_all(is.as_bytes())?;
        opened.sync_all()?;
        sync_folder(dir)?;
    }
    Ok(())
}
