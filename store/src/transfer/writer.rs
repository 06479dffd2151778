//! Writing the lines of an export, whatever the store.

use super::{
    Counts, Source,
    line::{FORMAT, Line, VERSION},
};
use crate::{Epoch, Error, Hold, Sequence, hex::hex};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// A writer of lines that keeps the digest of all it wrote.
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

    /// Ends it; without this it is no export.
    pub(crate) fn end(mut self, counts: Counts, source: &Source) -> Result<Counts, Error> {
        let sha256 = hex(&self.sha.clone().finalize());
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

/// Why a store is held that was exported to go on elsewhere.
pub(crate) fn moved() -> Hold {
    Hold::starting_now(
        "it was exported to go on elsewhere; to go on here after all, make sure that it does not",
    )
}

/// A store that is held does not move: what is made of it would not be held, and nobody would have let it go.
pub(crate) fn not_free(hold: &Hold) -> Error {
    let why = format!("the store is held, and does not move before somebody has let it go: {}", hold.why);
    Error::Refused { why }
}
