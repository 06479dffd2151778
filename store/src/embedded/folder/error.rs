//! Errors of the file system.

use crate::Error;
use std::{io, path::Path};

/// Returns the error of a step of a store that failed at `path`.
pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::Unavailable { why: format!("cannot {what} {}: {error}", path.display()) }
}
