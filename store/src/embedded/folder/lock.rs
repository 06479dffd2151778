//! One process per folder: `LOCK` is held for as long as any thread of the store lives, and names its process.

use crate::Error;
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::Write,
    path::Path,
    thread,
    time::Duration,
};

/// A held folder.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the folder. The threads of a store that this process just dropped get two seconds to end.
    pub(crate) fn take(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("LOCK");
        let failed = |error| Error::Unavailable { why: format!("cannot lock {}: {error}", path.display()) };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        for _ in 0..200 {
            match file.try_lock() {
                Ok(()) => {
                    file.set_len(0)
                        .and_then(|()| writeln!(file, "{}", std::process::id()))
                        .map_err(failed)?;
                    return Ok(Self { _file: file });
                }
                Err(TryLockError::WouldBlock) if holder(&path) == std::process::id().to_string() => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        Err(Error::Refused {
            why: format!(
                "folder {} is in use by process {}; stop it or choose another --data",
                dir.display(),
                holder(&path)
            ),
        })
    }
}

fn holder(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pid = text.trim();
    if !pid.is_empty() && pid.chars().all(|c| c.is_ascii_digit()) {
        pid.to_owned()
    } else {
        "unknown".to_owned()
    }
}
