//! Opening: decides which parts are valid, what to replay, and when to refuse.
//!
//! Three things can hold the state: the index (if its scan proves it complete), a snapshot, and the journal. A base is
//! an index, a snapshot or nothing, from which the journal leads without a gap to the last commit. The opening
//! refuses only if no base does, or if commits known to have been acknowledged would be missing.

mod base;
mod evidence;
mod rebuild;

pub(crate) use rebuild::rebuild;

use self::{
    base::Base,
    evidence::Evidence,
    rebuild::{fresh, replay},
};
use super::{
    folder::failed,
    index::{Index, Progress},
    journal::segment::{self, BlankSegment, Segment},
    open_report::Report,
    options::Options,
    snapshot::{self, take},
};
use crate::{Error, Sequence};
use std::{fs, path::Path};

/// The first segment of an opening is shorter than the others, so that opening is quick; in bytes.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;

/// A store brought up to date.
pub(crate) struct Recovered {
    pub(crate) index: Index,
    pub(crate) segment: Segment,
    pub(crate) sequence: Sequence,
    pub(crate) opens: u64,
    pub(crate) report: Report,
    /// The part of the journal that no snapshot has.
    pub(crate) backlog: Backlog,
}

/// How far the journal has grown since the last snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Bytes of commits that no snapshot has.
    pub(crate) bytes: u64,
    /// Length of the last snapshot, in bytes.
    pub(crate) snapshot: u64,
}

/// With more journal files than this, an opening writes a snapshot: each start begins a file, even if it is killed
/// later.
const MOST_SEGMENTS: usize = 64;

impl Backlog {
    fn of(evidence: &Evidence) -> Self {
        let newest = evidence.snapshots.first();
        let applied = newest.map_or(Sequence(0), |(_, extent)| extent.applied);
        let length = newest.and_then(|(path, _)| fs::metadata(path).ok()).map_or(0, |file| file.len());
        Self { bytes: evidence.journal.bytes_after(applied), snapshot: length }
    }

    /// Returns true if earlier processes ended before they wrote a due snapshot, so that this opening must.
    fn is_overdue(self, options: &Options) -> bool {
        let threshold = options.checkpoint_after_bytes.max(self.snapshot);
        self.bytes >= threshold.saturating_mul(2)
    }
}

/// Brings the store in `dir` up to date, or refuses. Never waits forever. Epochs skip `opens` further openings, which
/// another copy may have used.
pub(crate) fn recover(dir: &Path, options: &Options, opens: u64) -> Result<Recovered, Error> {
    let progress = Progress::default();
    let (at, mine, its) = (dir.to_owned(), options.clone(), progress.clone());
    // Longer than the stall limit of the index, so that a stalled index is reported by its own error.
    let limit = options.open_stall.saturating_mul(2);
    progress.watch(limit, move || bring_up(&at, &mine, &its, opens)).unwrap_or_else(|| {
        let why = format!(
            "opening the store in {} has made no progress for {limit:?}; no data is lost: restart the process",
            dir.display()
        );
        Err(Error::Unavailable { why })
    })
}

fn bring_up(dir: &Path, options: &Options, progress: &Progress, more: u64) -> Result<Recovered, Error> {
    tidy(dir)?;
    let mut evidence = evidence::gather(dir, options, progress)?;
    let choice = base::choose(&evidence)?;
    let mut report = Report { sequence: choice.sequence, ..Report::default() };
    if let (Some((_, from, to)), false) = (&evidence.journal.torn, choice.is_repair(&evidence)) {
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
    // Before the new segment, which may take the name of one without a commit.
    segment::trim(&evidence.journal.surplus).map_err(|error| failed("trim the journal in", dir, &error))?;
    let first = Sequence(choice.sequence.0.saturating_add(1));
    let bytes = options.segment_bytes.min(FIRST_SEGMENT_BYTES);
    let segment = BlankSegment::make(dir, 0, bytes)
        .and_then(|blank| Segment::begin(blank, dir, first, opens))
        .map_err(|error| failed("begin a journal file in", dir, &error))?;
    report.repaired = choice.repaired(&evidence);
    let mut backlog = Backlog::of(&evidence);
    // A store with a large snapshot has more of them by design.
    let expected = backlog.snapshot.saturating_mul(2) / options.segment_bytes.max(1);
    let most = MOST_SEGMENTS.saturating_add(usize::try_from(expected).unwrap_or(usize::MAX));
    if !report.repaired.is_empty() || backlog.is_overdue(options) || evidence.journal.segments > most {
        backlog = snapshot_now(dir, &index, choice.sequence, backlog, !report.repaired.is_empty())?;
    }
    Ok(Recovered { index, segment, sequence: choice.sequence, opens, report, backlog })
}

/// Writes a snapshot of an index with everything up to `last`, and removes the journal before it. A snapshot that
/// only saves disk space may fail for lack of it: it is tried again in the background.
fn snapshot_now(
    dir: &Path,
    index: &Index,
    last: Sequence,
    before: Backlog,
    needed: bool,
) -> Result<Backlog, Error> {
    let written = take::write(dir, index, || last).and_then(|(applied, bytes)| {
        take::prune(dir, applied).map_err(|error| failed("tidy", dir, &error))?;
        Ok(Backlog { bytes: 0, snapshot: bytes })
    });
    match written {
        Err(error) if !needed => {
            tracing::warn!("no snapshot was written while {} was opened: {error}", dir.display());
            Ok(before)
        }
        written => written,
    }
}

/// Creates the folders, and removes unfinished files of an earlier process.
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
