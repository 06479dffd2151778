//! Builds a fresh index from a base and the journal.

use super::{
    base::{self, Base, Choice},
    evidence::{self, Evidence},
};
use crate::{
    Error, Sequence,
    embedded::{
        folder::failed,
        index::{Index, Progress, Rows, Verdict, merged, open_verified},
        journal::{frame::Frame, survey},
        options::Options,
        snapshot,
    },
};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

/// The step size for loading rows of a snapshot, in bytes.
const LOAD_BYTES: usize = 1 << 20;

/// Deletes the index. If its thread still uses the files, the next opening removes them.
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
pub(super) fn fresh(dir: &Path, options: &Options, base: &Base, progress: &Progress) -> Result<Index, Error> {
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

/// Applies the commits of the journal beyond the index up to `upto`. Returns their number.
pub(super) fn replay(dir: &Path, index: &Index, upto: Sequence) -> Result<u64, Error> {
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

/// Rebuilds the index while the store is open: from the newest complete snapshot and the journal, without a frame
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
