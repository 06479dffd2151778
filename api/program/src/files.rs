//! Reads files and standard input.

use crate::exit::{Exit, Failure};
use reqwest::Certificate;
use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

/// Reads the text of `file`; `-` is standard input.
pub fn read(file: &Path) -> Result<String, Failure> {
    let named = |error: io::Error| unreadable(file, &error);
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        io::stdin().read_to_end(&mut bytes).map_err(named)?;
    } else {
        bytes = fs::read(file).map_err(named)?;
    }
    text(bytes).map_err(|why| Failure::new(Exit::Usage, format!("{}: {why}", file.display())))
}

/// Returns the text, or an error with the position of the first byte that is not UTF-8 and a command to convert the file.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    let from = match bytes.get(..2) {
        Some([0xff, 0xfe] | [0xfe, 0xff]) => "UTF-16",
        Some(_) | None => "latin1",
    };
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(good).filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: the file is not UTF-8, perhaps {from}; convert it: `iconv -f {from} -t utf-8`")
    })
}

/// Reads the certificate authorities in `file`, if one is given.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub fn authorities(file: Option<&Path>) -> Result<Vec<Certificate>, Failure> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let pem = fs::read(file).map_err(|error| unreadable(file, &error))?;
    let all = Certificate::from_pem_bundle(&pem).unwrap_or_default();
    if all.is_empty() {
        let why = format!("--ca-file: {} has no certificate; use a PEM file", file.display());
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok(all)
}

/// Returns the error for a file that cannot be read.
pub fn unreadable(file: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_encoding_has_the_line_and_a_command_to_convert_the_file() {
        let latin = text(b"name: a\nnote: caf\xe9\n".to_vec()).unwrap_err();
        assert!(latin.starts_with("line 2: ") && latin.contains("iconv -f latin1"), "{latin}");
        let wide = text(b"\xff\xfen\x00a\x00".to_vec()).unwrap_err();
        assert!(wide.contains("UTF-16"), "{wide}");
        assert_eq!(text("caf\u{e9}".into()).unwrap(), "caf\u{e9}");
    }
}
