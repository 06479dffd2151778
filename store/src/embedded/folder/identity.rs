//! Whether a folder is the one in which its store was made, or a copy: the file `PLACE` says which file it is.
//!
//! A copy of it is another file, with another inode and another moment of birth, and says what the first one was. A folder
//! that is renamed, or a disk that is attached elsewhere, has the same files.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

fn path(dir: &Path) -> PathBuf {
    dir.join("PLACE")
}

/// What only this file says of itself.
fn identity(file: &File) -> io::Result<String> {
    let metadata = file.metadata()?;
    // Not every file system remembers it; the inode is left then.
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or(0, |born| born.as_nanos());
    Ok(format!("inode {} born {born}\n", metadata.ino()))
}

/// Whether the folder was copied since its store was last opened. What is said of the place is not changed: see [`record`].
pub(crate) fn is_copy(dir: &Path) -> io::Result<bool> {
    let file = match File::open(path(dir)) {
        Ok(file) => file,
        // Written by a version that said nothing of it, or new.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let said = fs::read_to_string(path(dir))?;
    // Nothing is said when the first opening ended before it was.
    Ok(!said.is_empty() && said != identity(&file)?)
}

/// From now on this folder is the place of its store.
pub(crate) fn record(dir: &Path) -> io::Result<()> {
    // In place: under a new name it would be another file.
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path(dir))?;
    let is = identity(&file)?;
    if fs::read_to_string(path(dir))? != is {
        file.set_len(0)?;
        file.write_all(is.as_bytes())?;
        file.sync_all()?;
    }
    Ok(())
}
