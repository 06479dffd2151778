//! Reading the lines of an export, whatever the store.

use super::{
    Counts,
    line::{FORMAT, LINE_LIMIT, Line, VERSION},
};
use crate::{BODY_LIMIT, Error, Hold, Sequence, hex, model::limits};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Read};

/// Reads an export to its end and returns its counts. Nothing is written.
///
/// # Errors
/// Same as the errors of `import` about the export.
pub fn verify(from: impl Read) -> Result<Counts, Error> {
    let (mut lines, mut counts) = (Reader::new(from), Counts::default());
    while let Some((number, line)) = lines.next(&counts)? {
        counted(line, &mut counts).map_err(|why| refused(number, &why))?;
    }
    Ok(counts)
}

fn counted(line: Line, counts: &mut Counts) -> Result<(), String> {
    match line {
        Line::Record(line) => {
            fits(&line.record()?.body)?;
            counts.records += 1;
        }
        Line::Entry(line) => {
            fits(&line.entry()?.0.detail)?;
            counts.entries += 1;
        }
        Line::Task(line) => {
            fits(&line.task()?.0.body)?;
            counts.tasks += 1;
        }
        Line::Document(line) => {
            fits(&line.document()?.body)?;
            counts.documents += 1;
        }
        Line::Header { .. } | Line::Trailer { .. } => {}
    }
    Ok(())
}

/// The lines of an export, one after the other.
pub(crate) struct Reader<R> {
    from: BufReader<R>,
    sha: Sha256,
    line: Vec<u8>,
    number: u64,
    source_held: bool,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from: BufReader::new(from),
            sha: Sha256::new(),
            line: Vec::new(),
            number: 0,
            source_held: false,
        }
    }

    /// Returns the next line with its number, the header first. Returns `None` at the end, after checking the digest
    /// and the counts.
    pub(crate) fn next(&mut self, counts: &Counts) -> Result<Option<(u64, Line)>, Error> {
        self.number += 1;
        let number = self.number;
        self.line.clear();
        let read = self.from.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| refused(number, &format!("it cannot be read: {error}")))?;
        if read == 0 || self.line.last() != Some(&b'\n') {
            return Err(refused(number, "the export ends here, without its trailer"));
        }
        let found: Line =
            serde_json::from_slice(&self.line).map_err(|error| refused(number, &error.to_string()))?;
        match &found {
            Line::Header { format, version, .. } if number == 1 => {
                if format != FORMAT || *version > VERSION {
                    let why =
                        format!("{format} {version} is not an export, or is from a newer version of Tenure");
                    return Err(refused(number, &why));
                }
            }
            Line::Trailer { counts: wanted, sha256, moved } if number > 1 => {
                self.trailer(wanted, sha256, counts).map_err(|why| refused(number, &why))?;
                self.source_held = *moved;
                return Ok(None);
            }
            Line::Record(_) | Line::Entry(_) | Line::Task(_) | Line::Document(_) if number > 1 => {}
            Line::Header { .. }
            | Line::Trailer { .. }
            | Line::Record(_)
            | Line::Entry(_)
            | Line::Task(_)
            | Line::Document(_) => {
                return Err(refused(number, "an export has one header, and begins with it"));
            }
        }
        self.sha.update(&self.line);
        Ok(Some((number, found)))
    }

    /// Returns true if the exported store is held, according to the trailer.
    pub(crate) fn is_source_held(&self) -> bool {
        self.source_held
    }

    fn trailer(&mut self, wanted: &Counts, sha256: &str, counts: &Counts) -> Result<(), String> {
        if hex::encode(&self.sha.clone().finalize()) != sha256 {
            return Err("the digest does not match: the export was changed".into());
        }
        if wanted != counts {
            return Err(format!("it should have {wanted}, but has {counts}"));
        }
        match self.from.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err("the trailer must be the last line".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the reason for holding a store that was imported while the original continues.
pub(crate) fn restored(sequence: Sequence) -> Hold {
    Hold::starting_now(format!(
        "it was made from an export as of commit {}; `tenure store held` shows the pending work, and \
         `tenure store release --since SINCE --reason REASON` releases the store",
        sequence.0
    ))
}

pub(crate) fn refused(line: u64, why: &str) -> Error {
    Error::Refused { why: format!("line {line} of the export: {why}; nothing was imported") }
}

pub(crate) fn fits(body: &[u8]) -> Result<(), String> {
    let bytes = limits::measured(body);
    if bytes > BODY_LIMIT { Err(format!("a body of {bytes} bytes exceeds {BODY_LIMIT}")) } else { Ok(()) }
}
