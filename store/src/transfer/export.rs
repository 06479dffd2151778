//! Exporting an embedded store.

use super::{
    Counts, Source,
    line::{DocumentLine, EntryLine, Line, RecordLine, TaskLine},
    writer::{Lines, moved, not_free},
};
use crate::{
    Embedded, Error, Options,
    embedded::{
        format::{
            codec,
            key::{self, Name},
        },
        shared::Shared,
    },
    sync::lock_unpoisoned,
};
use std::{io::Write, ops::Bound, path::Path};

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

fn write_all(shared: &Shared, out: impl Write, source: &Source) -> Result<Counts, Error> {
    if let (Source::Replaced, Some(hold)) = (source, lock_unpoisoned(&shared.hold).as_ref()) {
        return Err(not_free(hold));
    }
    let epoch = lock_unpoisoned(&shared.tasks).last_epoch();
    let mut lines = Lines::begin(out, shared.memtable().last(), epoch)?;
    let mut counts = Counts::default();
    shared.scan(Bound::Unbounded, &[key::CHUNK], |key, value| {
        let corrupt = |why| codec::corrupt(key, why);
        if let Some(item) = item(shared, key, value.as_ref(), &mut counts).map_err(corrupt)? {
            lines.write(&item)?;
        }
        Ok(true)
    })?;
    match source {
        Source::KeepsRunning => {}
        Source::Replaced => shared.hold(moved())?,
    }
    lines.end(counts, source)
}

/// Returns the line of a row, or `None` for secondary rows, which an import rebuilds.
fn item(shared: &Shared, key: &[u8], value: &[u8], counts: &mut Counts) -> Result<Option<Line>, String> {
    let name = key::parse(key).ok_or("its key is unknown")?;
    let (count, item) = match name {
        Name::Record(_) => {
            (&mut counts.records, Line::Record(Box::new(RecordLine::new(codec::record(key, value)?))))
        }
        Name::Entry(..) => {
            let (entry, place) = codec::entry(key, value)?;
            (&mut counts.entries, Line::Entry(EntryLine::new(entry, place)))
        }
        Name::Task(id) => {
            let (mut task, since) = codec::task(id, key, value)?;
            let (due, deliveries) = shared.due_and_deliveries(id).unwrap_or((task.due, 0));
            task.due = due;
            (&mut counts.tasks, Line::Task(TaskLine::new(&task, since, deliveries)))
        }
        Name::Document(_) => {
            (&mut counts.documents, Line::Document(DocumentLine::new(codec::document(key, value)?)))
        }
        Name::Guard(_) | Name::Open(_) | Name::Tenant(..) | Name::Order(..) => return Ok(None),
    };
    *count = count.saturating_add(1);
    Ok(Some(item))
}
