//! Opening: what can be trusted, what is replayed, and when to refuse.
//!
//! Three things can hold the state: the index (if its scan proves it whole), a snapshot, and the journal. A base is
//! an index, a snapshot or nothing, from which the journal leads without a gap to the last commit. The opening
//! refuses only if no base does, or if commits known to have been acknowledged would be missing.

mod base;
mod evidence;

use crate::embedded::recovery::{
    base::{Base, Choice},
    evidence::Evidence,
};
use crate::embedded::{
    index::{Index, Progress, Rows, Verdict, open_verified},
    journal::{
        frame::Frame,
        segment::{self, Blank, Segment},
        survey,
    },
    open_report::Report,
    options::Options,
    snapshot,
    threads::{checkpoint, indexer::merged},
};
use crate::{Error, Sequence};
use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc};

/// The first segment of an opening is shorter than the others, so that opening is quick; in bytes.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;
/// Rows of a snapshot are loaded in steps of so many bytes.
const LOAD_BYTES: usize = 1 << 20;

/// A store brought up to date.
pub(crate) struct Recovered {
    pub(crate) index: Index,
    pub(crate) segment: Segment,
    pub(crate) sequence: Sequence,
    pub(crate) opens: u64,
    pub(crate) report: Report,
}

pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::Unavailable { why: format!("cannot {what} {}: {error}", path.display()) }
}

/// Brings the store in `dir` up to date, or refuses to; never waits for ever.
/// Epochs go on past `opens` openings more, which somebody else may have seen.
pub(crate) fn recover(dir: &Path, options: &Options, opens: u64) -> Result<Recovered, Error> {
    let progress = Progress::default();
    let (at, mine, its) = (dir.to_owned(), options.clone(), progress.clone());
    // Longer than opening the index may stand still, so that this is told by its own name where it can be.
    let limit = options.open_stall.saturating_mul(2);
    progress.watch(limit, move || bring_up(&at, &mine, &its, opens)).unwrap_or_else(|| {
        let why = format!(
            "opening the store in {} has not moved for {limit:?}; nothing is lost, start the process again",
            dir.display()
        );
        Err(Error::Unavailable { why })
    })
}

fn bring_up(dir: &Path, options: &Options, progress: &Progress, more: u64) -> Result<Recovered, Error> {
    tidy(dir)?;
    let mut evidence = evidence::look(dir, options, progress)?;
    let choice = base::choose(&evidence)?;
    let mut report = Report { sequence: choice.sequence, ..Report::default() };
    if let (Some((_, from, to)), false) = (&evidence.journal.torn, evidence.is_repaired(&choice)) {
        report.cut_tail_bytes = to.saturating_sub(*from);
    }
    let opens = evidence.opens().saturating_add(1).saturating_add(more);
    let index = match (&choice.base, evidence.index.take()) {
        (Base::Index, Some(found)) => found.index,
        (base, found) => {
            drop(found);
            if evidence.has_content() {
                report.rebuilt_index =
                    Some(evidence.index_problem.clone().unwrap_or_else(|| "it was behind".into()));
            }
            fresh(dir, options, base, progress)?
        }
    };
    report.replayed = replay(dir, &index, Sequence(u64::MAX))?;
    index.set_opens(opens)?;
    let first = Sequence(choice.sequence.0.saturating_add(1));
    let bytes = options.segment_bytes.min(FIRST_SEGMENT_BYTES);
    let segment = Blank::make(dir, 0, bytes)
        .and_then(|blank| Segment::begin(blank, dir, first, opens))
        .map_err(|error| failed("begin a journal file in", dir, &error))?;
    report.repaired = evidence.repaired(&choice);
    if !report.repaired.is_empty() {
        let (applied, _) = checkpoint::write(dir, &index, || choice.sequence)?;
        checkpoint::prune(dir, applied).map_err(|error| failed("tidy", dir, &error))?;
    }
    Ok(Recovered { index, segment, sequence: choice.sequence, opens, report })
}

/// Makes the folders, and removes what an earlier process left half made.
fn tidy(dir: &Path) -> Result<(), Error> {
    for folder in [segment::folder(dir), snapshot::folder(dir)] {
        fs::create_dir_all(&folder).map_err(|error| failed("make", &folder, &error))?;
        let files = fs::read_dir(&folder).map_err(|error| failed("list", &folder, &error))?;
        for file in files.flatten() {
            let path = file.path();
            if path.extension().is_some_and(|found| found == "blank" || found == "partial") {
                fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
            }
        }
    }
    for folder in
        [Some(dir), dir.parent()].into_iter().flatten().filter(|folder| !folder.as_os_str().is_empty())
    {
        segment::sync_folder(folder).map_err(|error| failed("sync", folder, &error))?;
    }
    let files = fs::read_dir(dir).map_err(|error| failed("list", dir, &error))?;
    for file in files.flatten() {
        if file.file_name().to_string_lossy().starts_with("index.bad") {
            let path = file.path();
            fs::remove_dir_all(&path).map_err(|error| failed("remove", &path, &error))?;
        }
    }
    Ok(())
}

/// Throws the index away, unless its thread still holds the files, in which case the next opening removes them.
fn discard(dir: &Path) -> Result<(), Error> {
    let folder = dir.join("index");
    let stale = dir.join("index.stale");
    if folder.exists() {
        let aside = (0..).map(|n| dir.join(format!("index.bad-{n}"))).find(|aside| !aside.exists());
        let aside = aside.unwrap_or_else(|| dir.join("index.bad"));
        fs::rename(&folder, &aside).map_err(|error| failed("rename", &folder, &error))?;
        let _ = fs::remove_dir_all(aside);
    }
    if stale.exists() {
        fs::remove_file(&stale).map_err(|error| failed("remove", &stale, &error))?;
    }
    Ok(())
}

/// A fresh index with the rows of `base`.
fn fresh(dir: &Path, options: &Options, base: &Base, progress: &Progress) -> Result<Index, Error> {
    discard(dir)?;
    let index = match open_verified(&dir.join("index"), options, progress) {
        Verdict::Whole(found) => found.index,
        Verdict::Unusable(why) => {
            return Err(Error::Unavailable {
                why: format!("no index can be made in {}: {why}", dir.display()),
            });
        }
    };
    if let Base::Snapshot(path, extent) = base {
        let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut bytes = 0_usize;
        let touched = extent.touched.max(extent.applied);
        let load = |rows: &BTreeMap<Vec<u8>, Vec<u8>>, applied| {
            let borrowed: Rows<'_> =
                rows.iter().map(|(key, value)| (key.as_slice(), Some(value.as_slice()))).collect();
            index.load(&borrowed, applied, touched)
        };
        snapshot::read(path, |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
            if bytes >= LOAD_BYTES {
                load(&rows, Sequence(0)).map_err(|error| error.to_string())?;
                rows.clear();
                bytes = 0;
            }
            Ok(())
        })
        .map_err(|why| Error::Unavailable { why: format!("{} cannot be loaded: {why}", path.display()) })?;
        load(&rows, extent.applied)?;
    }
    Ok(index)
}

/// Applies what the journal has beyond the index and not beyond `upto`; returns how many commits that were.
fn replay(dir: &Path, index: &Index, upto: Sequence) -> Result<u64, Error> {
    let start = index.applied();
    let mut frames: Vec<Arc<Frame>> = Vec::new();
    let mut bytes = 0_usize;
    let apply = |frames: &[Arc<Frame>]| {
        let (rows, upto) = merged(frames, index.applied())?;
        if upto > index.applied() { index.apply(&rows, upto) } else { Ok(()) }
    };
    survey::survey(dir, |frame| {
        if frame.header.last() > start && frame.header.last() <= upto {
            bytes = bytes.saturating_add(frame.bytes.len());
            frames.push(Arc::new(frame));
        }
        if bytes >= LOAD_BYTES {
            apply(&frames)?;
            frames.clear();
            bytes = 0;
        }
        Ok(())
    })?;
    apply(&frames)?;
    Ok(index.applied().0.saturating_sub(start.0))
}

/// Makes the index anew while the store is open: from the newest whole snapshot and the journal, but not with a frame
/// that is being written meanwhile.
pub(crate) fn rebuild(
    dir: &Path,
    options: &Options,
    opens: u64,
    acknowledged: Sequence,
) -> Result<Index, Error> {
    let mut evidence = Evidence { journal: survey::survey(dir, |_| Ok(()))?, ..Evidence::default() };
    evidence::snapshots(dir, &mut evidence)?;
    let Choice { base, .. } = base::choose(&evidence)?;
    let index = fresh(dir, options, &base, &Progress::default())?;
    replay(dir, &index, acknowledged)?;
    index.set_opens(opens)?;
    Ok(index)
}
