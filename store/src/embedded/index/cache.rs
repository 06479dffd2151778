//! Keeping sled's cache to its bound, after most of the index has been read once.

use super::{Index, guarded};
use crate::Error;
use sled::Db;

/// So many keys, far from each other, lie on pages of all shards of sled's cache.
const MOST: usize = 2048;
/// Accesses of a shard from one look at its bound to the next.
const ACCESSES_A_LOOK: usize = 64;

/// Keys far from each other, noted on a way through the index.
///
/// sled looks at its cache's bound only once in 64 accesses of one of 256 shards, and an iteration counts as one access a page: after a way
/// through the index as many as 16,384 pages stay in memory, whatever the bound. To read some keys of all shards that often has each shard
/// look: a tenth of a second.
#[derive(Default)]
pub(crate) struct CacheTrim {
    keys: Vec<Box<[u8]>>,
    seen: u64,
    /// One key in two to the power of this is kept.
    rare: u32,
}

impl CacheTrim {
    /// Notes a key that was passed.
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

    /// Has sled let go of what its cache may not hold.
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
    /// Tells whoever watches an opening that it moves on.
    pub(crate) fn note_progress(&self) {
        self.progress.record_progress();
    }

    /// Has sled let go of pages that were read on the way of `trim`, as far as its cache may not hold them.
    pub(crate) fn trim_cache(&self, trim: &CacheTrim) -> Result<(), Error> {
        guarded(|| trim.trim_cache(self.db()?, || self.progress.record_progress()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_way_few_keys_are_kept_and_they_are_from_all_of_it() {
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
