//! The evidence of an opening: index, snapshots, journal and hint.

use crate::{
    Error, Sequence,
    embedded::{
        folder::{failed, watermark::Watermark},
        format::codec,
        index::{Progress, Verdict, Verified, open_verified},
        journal::survey::{self, Survey},
        options::Options,
        snapshot::{self, Extent},
    },
};
use std::path::{Path, PathBuf};

/// All parts found in a store's folder.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) journal: Survey,
    /// Whole snapshots, newest first.
    pub(crate) snapshots: Vec<(PathBuf, Extent)>,
    /// Damaged snapshots, with their problems.
    pub(crate) damaged_snapshots: Vec<String>,
    /// The index, if its scan proved it complete; it may be empty.
    pub(crate) index: Option<Verified>,
    /// Why there is no usable index.
    pub(crate) index_problem: Option<String>,
    pub(crate) head: Option<Watermark>,
}

pub(crate) fn gather(dir: &Path, options: &Options, progress: &Progress) -> Result<Evidence, Error> {
    let mut evidence = Evidence {
        journal: survey::survey(dir, |_| Ok(()))?,
        head: Watermark::read(dir),
        ..Evidence::default()
    };
    snapshots(dir, &mut evidence)?;
    index(dir, options, progress, &mut evidence);
    Ok(evidence)
}

/// Reads every snapshot to its end.
pub(crate) fn snapshots(dir: &Path, evidence: &mut Evidence) -> Result<(), Error> {
    let folder = snapshot::folder(dir);
    let found = snapshot::list(dir).map_err(|error| failed("list", &folder, &error))?;
    for (named, path) in found.into_iter().rev() {
        match snapshot::read(&path, codec::check) {
            Ok(extent) if extent.applied == named => evidence.snapshots.push((path, extent)),
            Ok(extent) => {
                let why = format!("{} is the snapshot of commit {}", path.display(), extent.applied.0);
                evidence.damaged_snapshots.push(why);
            }
            Err(why) => evidence.damaged_snapshots.push(format!("{}: {why}", path.display())),
        }
    }
    Ok(())
}

fn index(dir: &Path, options: &Options, progress: &Progress, evidence: &mut Evidence) {
    let folder = dir.join("index");
    if dir.join("index.stale").exists() {
        evidence.index_problem = Some("it made no progress".into());
    } else if !folder.exists() {
        evidence.index_problem = Some("it was missing".into());
    } else {
        match open_verified(&folder, options, progress) {
            Verdict::Whole(found) => evidence.index = Some(*found),
            Verdict::Unusable(why) => evidence.index_problem = Some(why),
        }
    }
}

impl Evidence {
    /// Returns true if the folder has any content.
    pub(crate) fn has_content(&self) -> bool {
        self.journal.last.0 > 0 || !self.snapshots.is_empty()
    }

    /// Returns the highest count of openings in any part.
    pub(crate) fn opens(&self) -> u64 {
        let snapshots = self.snapshots.iter().map(|(_, extent)| extent.opens);
        let index = self.index.as_ref().map(|found| found.stats.opens);
        let head = self.head.map(|head| head.opens);
        snapshots.chain(index).chain(head).fold(self.journal.opens, u64::max)
    }

    /// The last commit that is known to have been acknowledged.
    pub(crate) fn acknowledged(&self) -> Sequence {
        let snapshots = self.snapshots.iter().map(|(_, extent)| extent.touched.max(extent.applied));
        let index = self.index.as_ref().map(|found| found.stats.touched.max(found.stats.applied));
        let head = self.head.map(|head| head.sequence);
        snapshots.chain(index).chain(head).max().unwrap_or_default()
    }
}
