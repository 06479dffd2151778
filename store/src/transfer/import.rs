//! Importing an export into an empty folder.

use super::{
    Counts,
    line::Line,
    reader::{Reader, fits, refused, restored},
};
use crate::{
    Error, Record, Sequence, TaskId,
    embedded::{
        IMPORTING,
        folder::{boot, deliveries, identity, lock::Lock},
        format::{codec, envelope::Kind, key},
        journal::segment,
        maintenance,
        open::RESTORED_OPENS,
        snapshot::{self, Extent},
    },
    model::limits,
};
use std::{
    collections::HashSet,
    fs,
    io::{self, Read},
    path::Path,
};

/// Creates a store in `dir` from an export. The store appears only after the export's digest has been verified. It is
/// held, unless the exported store is.
///
/// # Errors
/// [`Error::Refused`] when the folder is not empty, or the export is cut off, changed, or of a newer format, with the
/// line; [`Error::Unavailable`] when the folder cannot be written. The folder then holds no store.
pub fn import(from: impl Read, dir: &Path) -> Result<Counts, Error> {
    let unwritable =
        |error: io::Error| Error::Unavailable { why: format!("cannot write {}: {error}", dir.display()) };
    fs::create_dir_all(dir).map_err(unwritable)?;
    let _lock = Lock::take(dir)?;
    let marker = dir.join(IMPORTING);
    if marker.exists() {
        // A killed import left these files behind; no other file is affected.
        clear(dir).map_err(unwritable)?;
    }
    let is_ours = |name: &std::ffi::OsStr| name == "LOCK" || name == IMPORTING;
    if fs::read_dir(dir).map_err(unwritable)?.flatten().any(|file| !is_ours(&file.file_name())) {
        let why = format!("{} is not empty; an import needs a folder without a store", dir.display());
        return Err(Error::Refused { why });
    }
    fs::write(&marker, "an import was begun here\n").map_err(unwritable)?;
    for folder in [segment::folder(dir), snapshot::folder(dir)] {
        fs::create_dir(folder).map_err(unwritable)?;
    }
    let mut import = Import::new(dir).map_err(unwritable)?;
    let imported = match import.read(from) {
        Ok(()) => import.finish(dir).map_err(unwritable),
        Err(error) => clear(dir).map_err(unwritable).and(Err(error)),
    };
    if imported.is_ok() {
        // The hold, if there is one, is on the disk by now: the place of the import itself is certain.
        identity::record(dir).map_err(unwritable)?;
        boot::closed(dir).map_err(unwritable)?;
        fs::remove_file(&marker).map_err(unwritable)?;
        segment::sync_folder(dir).map_err(unwritable)?;
    }
    imported
}

/// Removes the files of an import, the marker last.
fn clear(dir: &Path) -> io::Result<()> {
    for folder in [segment::folder(dir), snapshot::folder(dir)] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    deliveries::remove(dir)?;
    maintenance::remove(dir)?;
    boot::remove(dir)?;
    if dir.join("PLACE").exists() {
        fs::remove_file(dir.join("PLACE"))?;
    }
    fs::remove_file(dir.join(IMPORTING))
}

struct Import {
    writer: snapshot::Writer,
    counts: Counts,
    sequence: Sequence,
    epoch: u64,
    guards: HashSet<String>,
    source_held: bool,
    deliveries: Vec<(TaskId, Sequence, u32)>,
    row: Vec<u8>,
}

impl Import {
    fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            writer: snapshot::Writer::create(dir)?,
            counts: Counts::default(),
            sequence: Sequence(0),
            epoch: 0,
            guards: HashSet::new(),
            source_held: false,
            deliveries: Vec::new(),
            row: Vec::new(),
        })
    }

    fn read(&mut self, from: impl Read) -> Result<(), Error> {
        let mut lines = Reader::new(from);
        while let Some((number, line)) = lines.next(&self.counts)? {
            self.add_line(line).map_err(|why| refused(number, &why))?;
        }
        self.source_held = lines.is_source_held();
        Ok(())
    }

    fn add_line(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Header { sequence, epoch, .. } => {
                self.sequence = Sequence(sequence);
                self.epoch = epoch;
            }
            Line::Trailer { .. } => return Err("the trailer comes last".into()),
            Line::Record(line) => self.record(&line.record()?)?,
            Line::Entry(line) => {
                let (entry, place) = line.entry()?;
                fits(&entry.detail)?;
                self.up_to(entry.sequence)?;
                let key = key::entry(entry.execution, entry.sequence, place);
                self.put(key, |out, key| codec::put_entry(out, key, &entry))?;
                let order = key::order(entry.sequence, place, entry.execution);
                self.put(order, |out, key| codec::put_mark(out, key, Kind::Order))?;
                self.counts.entries += 1;
            }
            Line::Task(line) => {
                let (task, since, deliveries) = line.task()?;
                fits(&task.body)?;
                self.up_to(since)?;
                self.deliveries.push((task.id, since, deliveries));
                self.put(key::task(task.id), |out, key| codec::put_task(out, key, &task, since))?;
                self.counts.tasks += 1;
            }
            Line::Document(line) => {
                let document = line.document()?;
                fits(&document.body)?;
                limits::check_key(&document.key).map_err(|error| error.to_string())?;
                self.up_to(document.version)?;
                let key = key::document(&document.key.collection, &document.key.id);
                self.put(key, |out, key| codec::put_document(out, key, document.version, &document.body))?;
                self.counts.documents += 1;
            }
        }
        Ok(())
    }

    /// Adds a record and its secondary rows.
    fn record(&mut self, record: &Record) -> Result<(), String> {
        let write = crate::Write { record: record.clone(), expected: None };
        let as_commit = crate::Commit { record: Some(write), ..crate::Commit::default() };
        limits::check(&as_commit).map_err(|error| error.to_string())?;
        self.put(key::record(record.id), |out, key| codec::put_record(out, key, record, record.revision))?;
        self.put(key::tenant(&record.tenant, record.id), |out, key| codec::put_mark(out, key, Kind::Tenant))?;
        if record.open {
            self.put(key::open(record.id), |out, key| codec::put_mark(out, key, Kind::Open))?;
        }
        if let Some(guard) = record.guard.as_ref().filter(|_| record.open) {
            if !self.guards.insert(guard.clone()) {
                return Err(format!("guard {guard} is held by two open records"));
            }
            self.put(key::guard(guard), |out, key| codec::put_guard(out, key, record.id))?;
        }
        self.counts.records += 1;
        Ok(())
    }

    fn up_to(&self, sequence: Sequence) -> Result<(), String> {
        if sequence > self.sequence {
            return Err(format!(
                "commit {} is after the last commit of the export, {}",
                sequence.0, self.sequence.0
            ));
        }
        Ok(())
    }

    fn put(
        &mut self,
        key: Vec<u8>,
        value: impl FnOnce(&mut Vec<u8>, &[u8]) -> Result<(), Error>,
    ) -> Result<(), String> {
        self.row.clear();
        value(&mut self.row, &key).map_err(|error| error.to_string())?;
        self.writer.put(&key, &self.row).map_err(|error| error.to_string())
    }

    fn finish(self, dir: &Path) -> io::Result<Counts> {
        let least = u32::from(!self.source_held);
        let counted = self.deliveries.into_iter().map(|(task, since, count)| (task, since, count.max(least)));
        let (file, _) = deliveries::write(dir, counted.filter(|(.., count)| *count > 0))?;
        file.sync_all()?;
        if !self.source_held {
            maintenance::write(dir, &restored(self.sequence))?;
        }
        // The first opening uses epochs above all of the export's, and above later ones of the original if it
        // continues.
        let since = if self.source_held { 0 } else { RESTORED_OPENS };
        let opens = (self.epoch >> 32).saturating_add(since);
        let extent = Extent { applied: self.sequence, touched: self.sequence, opens, rows: 0 };
        self.writer.finish(dir, extent)?;
        Ok(self.counts)
    }
}
