//! Files and standard input.

use crate::exit::Failure;
use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

/// The text of `file`; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let named = |error: io::Error| Failure::other(format!("{}: {error}", file.display()));
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(named)?;
        return Ok(text);
    }
    fs::read_to_string(file).map_err(named)
}
