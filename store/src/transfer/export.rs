//! Writing a store out.

use super::{
    Counts,
    line::{DocumentLine, EntryLine, FORMAT, Line, RecordLine, TaskLine, VERSION},
};
use crate::{
    Embedded, Epoch, Error, Hold, Options, Sequence,
    embedded::{
        commit::apply::locked,
        format::{
            codec,
            key::{self, Name},
        },
        shared::Shared,
    },
    hex::hex,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::{
    io::{self, Write},
    ops::Bound,
    path::Path,
};

/// What becomes of a store that is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It goes on. What is made of the export is a second one, and held.
    Stays,
    /// It is held from the end of the export on; what is made of the export goes on in its place.
    Moves,
}

/// Writes all of `store` to `out`, as of one commit; commits wait meanwhile. Counts what was written.
///
/// # Errors
/// [`Error::Corrupt`] naming what cannot be read, [`Error::Unavailable`] when `out` cannot be written or the store not be held.
pub async fn export(
    store: &Embedded,
    out: impl Write + Send + 'static,
    source: Source,
) -> Result<Counts, Error> {
    store.paused(move |shared| write_all(shared, out, &source)).await
}

/// Opens the store in `dir`, writes all of it to `out` and closes it.
///
/// # Errors
/// Those of [`Embedded::open`] and of [`export`].
pub async fn export_folder(
    dir: &Path,
    out: impl Write + Send + 'static,
    source: Source,
) -> Result<Counts, Error> {
    let opened = Embedded::open(dir, Options::default())?;
    let exported = export(&opened.store, out, source).await;
    opened.store.close().await?;
    exported
}

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
        self.write(&Line::Trailer { counts, sha256, moved: *source == Source::Moves })?;
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
    Hold::begun("it was exported to go on elsewhere; to go on here after all, make sure that it does not")
}

/// A store that is held does not move: what is made of it would not be held, and nobody would have let it go.
pub(crate) fn not_free(hold: &Hold) -> Error {
    let why = format!("the store is held, and does not move before somebody has let it go: {}", hold.why);
    Error::Refused { why }
}

fn write_all(shared: &Shared, out: impl Write, source: &Source) -> Result<Counts, Error> {
    if let (Source::Moves, Some(hold)) = (source, locked(&shared.held).as_ref()) {
        return Err(not_free(hold));
    }
    let epoch = locked(&shared.tasks).last_epoch();
    let mut lines = Lines::begin(out, shared.overlay().last(), epoch)?;
    let mut counts = Counts::default();
    shared.scan(Bound::Unbounded, &[key::CHUNK], |key, value| {
        let corrupt = |why| Error::Corrupt { what: codec::describe(key), why };
        if let Some(item) = item(shared, key, value.as_ref(), &mut counts).map_err(corrupt)? {
            lines.write(&item)?;
        }
        Ok(true)
    })?;
    match source {
        Source::Stays => {}
        Source::Moves => shared.hold(moved())?,
    }
    lines.end(counts, source)
}

/// The line of a row; `None` for rows by which others are found, which an import makes anew.
fn item(shared: &Shared, key: &[u8], value: &[u8], counts: &mut Counts) -> Result<Option<Line>, String> {
    let name = key::parse(key).ok_or("its key is none of ours")?;
    let (count, item) = match name {
        Name::Record(_) => {
            (&mut counts.records, Line::Record(Box::new(RecordLine::of(codec::record(key, value)?))))
        }
        Name::Entry(..) => {
            let (entry, place) = codec::entry(key, value)?;
            (&mut counts.entries, Line::Entry(EntryLine::of(entry, place)))
        }
        Name::Task(id) => {
            let (mut task, since) = codec::task(id, key, value)?;
            let (due, deliveries) = shared.standing(id).unwrap_or((task.due, 0));
            task.due = due;
            (&mut counts.tasks, Line::Task(TaskLine::of(&task, since, deliveries)))
        }
        Name::Document(_) => {
            (&mut counts.documents, Line::Document(DocumentLine::of(codec::document(key, value)?)))
        }
        Name::Guard(_) | Name::Open(_) | Name::Tenant(..) | Name::Order(..) => return Ok(None),
    };
    *count = count.saturating_add(1);
    Ok(Some(item))
}
