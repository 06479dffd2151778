//! Files and standard input.

use crate::exit::{Exit, Failure};
use reqwest::Certificate;
use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

/// The text of `file`; `-` is standard input.
pub fn read(file: &Path) -> Result<String, Failure> {
    let named = |error: io::Error| unreadable(file, &error);
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(named)?;
        return Ok(text);
    }
    fs::read_to_string(file).map_err(named)
}

/// The authorities in `file`, if one is named.
///
/// # Errors
/// It cannot be read, or holds none.
pub fn authorities(file: Option<&Path>) -> Result<Vec<Certificate>, Failure> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let pem = fs::read(file).map_err(|error| unreadable(file, &error))?;
    let all = Certificate::from_pem_bundle(&pem).unwrap_or_default();
    if all.is_empty() {
        let why = format!("--ca-file: {} holds no certificate: write it as PEM", file.display());
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok(all)
}

/// That a file which the command line names cannot be read.
pub fn unreadable(file: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {error}", file.display()))
}
