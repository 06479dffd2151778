//! Files and standard input.

use crate::exit::{Exit, Failure};
use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

/// The text of `file`; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let named = |error: io::Error| unread(file, &error);
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(named)?;
        return Ok(text);
    }
    fs::read_to_string(file).map_err(named)
}

/// That a file which the command line names cannot be read.
pub(super) fn unread(file: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {error}", file.display()))
}
