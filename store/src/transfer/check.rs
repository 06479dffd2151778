//! Checks a store in its folder: every frame, every block, every value.

use crate::{
    Error, Options, Sequence,
    embedded::{
        folder::lock::Lock,
        format::{codec, key},
        index::{Progress, Verdict, Verified, open_verified},
        journal::survey,
        snapshot,
    },
};
use std::{fmt, ops::Bound, path::Path};

/// The counts and problems of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The last commit that the journal holds.
    pub journal_to: Sequence,
    /// Whole frames of the journal, and the commits in them.
    pub frames: u64,
    /// Commits in these frames.
    pub commits: u64,
    /// Whole snapshots.
    pub snapshots: u64,
    /// Rows of these snapshots.
    pub snapshot_rows: u64,
    /// Readable rows of the index.
    pub index_rows: u64,
    /// The commit up to which the index is complete.
    pub index_to: Sequence,
    /// The problems, one sentence each, with the remedy.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Returns true if there are no problems.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { journal_to, frames, commits, snapshots, snapshot_rows, index_rows, index_to, problems } =
            self;
        writeln!(f, "journal: {commits} commits in {frames} frames, up to commit {}", journal_to.0)?;
        writeln!(f, "snapshots: {snapshots} with {snapshot_rows} rows")?;
        writeln!(f, "index: {index_rows} rows, complete up to commit {}", index_to.0)?;
        if problems.is_empty() {
            return write!(f, "no problems");
        }
        write!(f, "{} problems:", problems.len())?;
        problems.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

/// Reads all of the store in `dir`, which must not be in use. Repairs nothing.
///
/// # Errors
/// [`Error::Refused`] when the folder is in use or holds no store, [`Error::Unavailable`] when it cannot be read.
pub fn check(dir: &Path) -> Result<CheckReport, Error> {
    if !dir.join("journal").is_dir() {
        return Err(Error::Refused { why: format!("there is no store in {}", dir.display()) });
    }
    let _lock = Lock::take(dir)?;
    let mut report = CheckReport::default();
    check_journal(dir, &mut report)?;
    check_snapshots(dir, &mut report)?;
    check_index(dir, &mut report)?;
    Ok(report)
}

fn check_journal(dir: &Path, report: &mut CheckReport) -> Result<(), Error> {
    let mut bad = Vec::new();
    let survey = survey::survey(dir, |frame| {
        for row in frame.rows() {
            let wrong = match row {
                None => Some("its rows are malformed".to_owned()),
                Some(row) => row.value.and_then(|value| {
                    codec::check(row.key, value)
                        .err()
                        .map(|why| format!("{}: {why}", codec::describe(row.key)))
                }),
            };
            bad.extend(wrong.map(|why| format!("the frame of commit {}: {why}", frame.header.first.0)));
        }
        Ok(())
    })?;
    (report.journal_to, report.frames, report.commits) = (survey.last, survey.frames, survey.commits);
    let advice = "the next start repairs it from the index or a snapshot, or reports that it cannot";
    report.problems.extend(survey.damage.iter().map(|damage| format!("{damage}; {advice}")));
    report.problems.extend(
        survey.headers.iter().map(|path| format!("{} has a damaged header; {advice}", path.display())),
    );
    report.problems.extend(bad);
    if let Some((path, from, to)) = survey.torn {
        report.problems.push(format!(
            "{} ends in {} bytes of an incomplete frame, from byte {from}: either a write interrupted by a crash, which the next start removes, or damage",
            path.display(),
            to.saturating_sub(from)
        ));
    }
    Ok(())
}

fn check_snapshots(dir: &Path, report: &mut CheckReport) -> Result<(), Error> {
    let folder = snapshot::folder(dir);
    let found = snapshot::list(dir)
        .map_err(|error| Error::Unavailable { why: format!("cannot list {}: {error}", folder.display()) })?;
    for (_, path) in found {
        match snapshot::read(&path, codec::check) {
            Ok(extent) => {
                report.snapshots = report.snapshots.saturating_add(1);
                report.snapshot_rows = report.snapshot_rows.saturating_add(extent.rows);
            }
            Err(why) => report.problems.push(format!(
                "{}: {why}; if the index is complete, the next start writes the snapshot again",
                path.display()
            )),
        }
    }
    Ok(())
}

fn check_index(dir: &Path, report: &mut CheckReport) -> Result<(), Error> {
    const STEP: usize = 256;
    let folder = dir.join("index");
    if !folder.exists() {
        report
            .problems
            .push("there is no index; the next start builds it from the snapshot and the journal".into());
        return Ok(());
    }
    let Verified { index, stats } = match open_verified(&folder, &Options::default(), &Progress::default()) {
        Verdict::Whole(found) => *found,
        Verdict::Unusable(why) => {
            report.problems.push(format!(
                "the index is damaged: {why}; the next start rebuilds it from the snapshot and the journal"
            ));
            return Ok(());
        }
    };
    report.index_to = stats.applied;
    let mut from = Bound::Unbounded;
    loop {
        let rows = index.range(from.as_ref().map(Vec::as_slice), &[key::CHUNK], STEP)?;
        for (key, value) in &rows {
            report.index_rows = report.index_rows.saturating_add(1);
            if let Err(why) = codec::check(key, value.as_ref()) {
                report.problems.push(format!("{} is unreadable: {why}", codec::describe(key)));
            }
        }
        match rows.last() {
            Some((key, _)) if rows.len() == STEP => from = Bound::Excluded(key.to_vec()),
            Some(_) | None => return Ok(()),
        }
    }
}
