//! Keeps sled's cache within its limit after a scan of the index.

use super::{Index, guarded};
use crate::Error;
use sled::Db;

/// This many keys, far apart, are on pages of all shards of sled's cache.
const MOST: usize = 2048;
/// The accesses of a shard between two checks of its limit.
const ACCESSES_A_LOOK: usize = 64;

/// Keys far apart, collected during a scan of the index.
///
/// sled checks the limit of its cache only once in 64 accesses of one of 256 shards, and an iteration counts as one
/// access for each page. So after a scan as many as 16,384 pages stay in memory, whatever the limit. Reading some
/// keys of all shards that often makes each shard check its limit; this takes a tenth of a second.
#[derive(Default)]
pub(crate) struct CacheTrim {
    keys: Vec<Box<[u8]>>,
    seen: u64,
    /// One key of two to the power of this is collected.
    rare: u32,
}

impl CacheTrim {
    /// Collects a key.
    pub(crate) fn sample_key(&mut self, key: &[u8]) {
        self.seen = self.seen.wrapping_add(1);
        if self.seen.trailing_zeros() < self.rare {
            return;
        }
        self.keys.push(key.into());
        if self.keys.len() >= MOST {
            self.keys = std::mem::take(&mut self.keys).into_iter().step_by(2).collect();
            self.rare = self.rare.saturating_add(1);
        }
    }

    /// Makes sled evict pages beyond the limit of its cache.
    pub(super) fn trim_cache(&self, db: &Db, moved: impl Fn()) -> sled::Result<()> {
        for key in &self.keys {
            for _ in 0..ACCESSES_A_LOOK {
                drop(db.get(key)?);
            }
            moved();
        }
        Ok(())
    }
}

impl Index {
    /// Reports progress of an opening.
    pub(crate) fn note_progress(&self) {
        self.progress.record_progress();
    }

    /// Makes sled evict pages that were read during the scan of `trim`, beyond the limit of its cache.
    pub(crate) fn trim_cache(&self, trim: &CacheTrim) -> Result<(), Error> {
        guarded(|| trim.trim_cache(self.db()?, || self.progress.record_progress()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_scan_caches_few_keys_from_all_of_its_range() {
        let mut trim = CacheTrim::default();
        for n in 0..100_000_u32 {
            trim.sample_key(&n.to_be_bytes());
        }
        assert!((MOST / 2..MOST).contains(&trim.keys.len()), "{}", trim.keys.len());
        let at = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
        let gaps = trim.keys.windows(2).map(|pair| at(&pair[1]) - at(&pair[0]));
        assert!(gaps.max().unwrap() < 1_000 && at(&trim.keys[0]) < 1_000);
    }
}
