//! Writing to the terminal.

use crate::exit::{Exit, Failure};
use std::io::{self, Write as _};

/// Writes to standard output. A reader that has gone away ends the program quietly.
pub fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::new(Exit::Done, "")),
        Err(error) => Err(Failure::other(format!("standard output: {error}"))),
    }
}

/// Writes to standard error, where it does not matter whether anyone reads.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
