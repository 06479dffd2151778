//! Writing the lines of an export, whatever the store.

use super::{
    Counts, Source,
    line::{FORMAT, Line, VERSION},
};
use crate::{Epoch, Error, Hold, Sequence, hex};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// A writer of lines that computes the digest.
pub(crate) struct Lines<W: Write> {
    out: io::BufWriter<W>,
    sha: Sha256,
    line: Vec<u8>,
}

impl<W: Write> Lines<W> {
    /// Begins an export as of a commit.
    pub(crate) fn begin(out: W, sequence: Sequence, epoch: Epoch) -> Result<Self, Error> {
        let mut lines = Self { out: io::BufWriter::new(out), sha: Sha256::new(), line: Vec::new() };
        let format = FORMAT.into();
        lines.write(&Line::Header { format, version: VERSION, sequence: sequence.0, epoch: epoch.0 })?;
        Ok(lines)
    }

    /// Writes the trailer, without which an export is invalid.
    pub(crate) fn end(mut self, counts: Counts, source: &Source) -> Result<Counts, Error> {
        let sha256 = hex::encode(&self.sha.clone().finalize());
        self.write(&Line::Trailer { counts, sha256, moved: *source == Source::Replaced })?;
        self.out.flush().map_err(|error| failed(&error))?;
        Ok(counts)
    }

    pub(crate) fn write(&mut self, line: &impl Serialize) -> Result<(), Error> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).map_err(|error| failed(&error.into()))?;
        self.line.push(b'\n');
        self.sha.update(&self.line);
        self.out.write_all(&self.line).map_err(|error| failed(&error))
    }
}

fn failed(error: &io::Error) -> Error {
    Error::Unavailable { why: format!("the export cannot be written: {error}") }
}

/// Returns the reason for holding a store that was exported to move.
pub(crate) fn moved() -> Hold {
    Hold::starting_now(
        "it was exported to continue elsewhere; before you release it here, make sure that the other store does not run",
    )
}

/// Refuses to move a held store: the imported copy would not be held, although the hold was not released.
pub(crate) fn not_free(hold: &Hold) -> Error {
    let why = format!("the store is held and cannot be moved until it is released: {}", hold.why);
    Error::Refused { why }
}
