//! Reading an export into an empty folder.

use super::{
    Counts,
    line::{FORMAT, LINE_LIMIT, Line, VERSION},
};
use crate::{
    BODY_LIMIT, Error, Hold, Record, Sequence, TaskId,
    embedded::{
        IMPORTING,
        folder::{deliveries, lock::Lock},
        format::{codec, envelope::Kind, key},
        journal::segment,
        maintenance,
        open::RESTORED_OPENS,
        snapshot::{self, Extent},
    },
    hex::hex,
    model::limits,
};
use sha2::{Digest, Sha256};
use std::{
    collections::HashSet,
    fs,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// Makes a store in `dir` from an export. The store appears only once the export's digest has been found right. It is held, unless
/// the one that was exported is.
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
        // An import that was killed left this behind, and nothing else that anybody needs.
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
        fs::remove_file(&marker).map_err(unwritable)?;
        segment::sync_folder(dir).map_err(unwritable)?;
    }
    imported
}

/// Reads an export to its end and says what it holds; nothing is written.
///
/// # Errors
/// As those of [`import`], of the export.
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

/// Takes away what an import has made, the marker last.
fn clear(dir: &Path) -> io::Result<()> {
    for folder in [segment::folder(dir), snapshot::folder(dir)] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    deliveries::remove(dir)?;
    maintenance::remove(dir)?;
    fs::remove_file(dir.join(IMPORTING))
}

/// The lines of an export, one after the other.
pub(crate) struct Reader<R> {
    from: BufReader<R>,
    sha: Sha256,
    line: Vec<u8>,
    number: u64,
    moved: bool,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from: BufReader::new(from), sha: Sha256::new(), line: Vec::new(), number: 0, moved: false }
    }

    /// The next line with its number, the header first; `None` at the end, where the digest was right, and `counts` what
    /// the export says that it holds.
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
                    let why = format!("{format} {version} is no export, or one of a newer version of Tenure");
                    return Err(refused(number, &why));
                }
            }
            Line::Trailer { counts: wanted, sha256, moved } if number > 1 => {
                self.trailer(wanted, sha256, counts).map_err(|why| refused(number, &why))?;
                self.moved = *moved;
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

    /// Whether the store that was exported is held, as the end of the export says.
    pub(crate) fn moved(&self) -> bool {
        self.moved
    }

    fn trailer(&mut self, wanted: &Counts, sha256: &str, counts: &Counts) -> Result<(), String> {
        if hex(&self.sha.clone().finalize()) != sha256 {
            return Err("the digest does not match: the export was changed".into());
        }
        if wanted != counts {
            return Err(format!("it should hold {wanted} and holds {counts}"));
        }
        match self.from.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err("something follows the trailer".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct Import {
    writer: snapshot::Writer,
    counts: Counts,
    sequence: Sequence,
    epoch: u64,
    guards: HashSet<String>,
    moved: bool,
    deliveries: Vec<(TaskId, Sequence, u32)>,
    row: Vec<u8>,
}

/// Why a store is held that was made from an export while the one that was exported goes on.
pub(crate) fn restored(sequence: Sequence) -> Hold {
    Hold::begun(format!("it was made from an export as of commit {}", sequence.0))
}

pub(crate) fn refused(line: u64, why: &str) -> Error {
    Error::Refused { why: format!("line {line} of the export: {why}; nothing was imported") }
}

impl Import {
    fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            writer: snapshot::Writer::create(dir)?,
            counts: Counts::default(),
            sequence: Sequence(0),
            epoch: 0,
            guards: HashSet::new(),
            moved: false,
            deliveries: Vec::new(),
            row: Vec::new(),
        })
    }

    fn read(&mut self, from: impl Read) -> Result<(), Error> {
        let mut lines = Reader::new(from);
        while let Some((number, line)) = lines.next(&self.counts)? {
            self.line(line).map_err(|why| refused(number, &why))?;
        }
        self.moved = lines.moved();
        Ok(())
    }

    fn line(&mut self, line: Line) -> Result<(), String> {
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

    /// A record, and the rows by which it is found.
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
            return Err(format!("commit {} is after the export's last, {}", sequence.0, self.sequence.0));
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
        let least = u32::from(!self.moved);
        let counted = self.deliveries.into_iter().map(|(task, since, count)| (task, since, count.max(least)));
        let (file, _) = deliveries::write(dir, counted.filter(|(.., count)| *count > 0))?;
        file.sync_all()?;
        if !self.moved {
            maintenance::write(dir, &restored(self.sequence))?;
        }
        // The first opening gives out epochs above all of the export's; of a store that goes on, also above those it gives out since.
        let since = if self.moved { 0 } else { RESTORED_OPENS };
        let opens = (self.epoch >> 32).saturating_add(since);
        let extent = Extent { applied: self.sequence, touched: self.sequence, opens, rows: 0 };
        self.writer.finish(dir, extent)?;
        Ok(self.counts)
    }
}

pub(crate) fn fits(body: &[u8]) -> Result<(), String> {
    let bytes = limits::measured(body);
    if bytes > BODY_LIMIT { Err(format!("a body of {bytes} bytes exceeds {BODY_LIMIT}")) } else { Ok(()) }
}
