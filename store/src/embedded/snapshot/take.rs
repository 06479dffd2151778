//! Takes a snapshot of the index, and removes the journal before it.

use super::{Extent, Writer, list};
use crate::{
    Error, Sequence,
    embedded::{
        format::{codec, key},
        index::{CacheTrim, Index},
        journal::segment,
    },
};
use std::{fs, io, ops::Bound, path::Path};

/// Returns the error of a checkpoint in `dir` that failed with `error`.
pub(crate) fn failed(dir: &Path, error: &io::Error) -> Error {
    let why = format!("a checkpoint in {} failed: {error}", dir.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { what: why },
        _ => Error::Unavailable { why },
    }
}

/// Writes a snapshot of `index`. Returns the commit up to which it is complete, and its length in bytes. The final
/// `touched` is the last commit that changed the index meanwhile.
pub(crate) fn write(
    dir: &Path,
    index: &Index,
    touched: impl FnOnce() -> Sequence,
) -> Result<(Sequence, u64), Error> {
    const STEP: usize = 256;
    let stats = index.stats();
    let mut writer = Writer::create(dir).map_err(|error| failed(dir, &error))?;
    let (mut from, mut trim) = (Bound::Unbounded, CacheTrim::default());
    loop {
        index.note_progress();
        let rows = index.range(from.as_ref().map(Vec::as_slice), &[key::CHUNK], STEP)?;
        for (key, value) in &rows {
            // A damaged row must not replace the snapshot that may still have it.
            codec::check(key, value.as_ref()).map_err(|why| codec::corrupt(key, why))?;
            writer.put(key, value.as_ref()).map_err(|error| failed(dir, &error))?;
            trim.sample_key(key);
        }
        match rows.last() {
            Some((key, _)) if rows.len() == STEP => from = Bound::Excluded(key.to_vec()),
            Some(_) | None => break,
        }
    }
    index.trim_cache(&trim)?;
    let extent = Extent { applied: stats.applied, touched: touched(), opens: stats.opens, rows: 0 };
    let bytes = writer.finish(dir, extent).map_err(|error| failed(dir, &error))?;
    Ok((stats.applied, bytes))
}

/// Removes the snapshots before that of `applied`, and the segments that end before it.
pub(crate) fn prune(dir: &Path, applied: Sequence) -> io::Result<()> {
    for (of, path) in list(dir)? {
        if of < applied {
            fs::remove_file(path)?;
        }
    }
    let segments = segment::list(dir)?;
    for ((_, path), (next, _)) in segments.iter().zip(segments.iter().skip(1)) {
        if next.0 <= applied.0.saturating_add(1) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
