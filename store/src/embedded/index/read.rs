//! Reads from the index: the block that covers a key, and later blocks.

use super::{Found, Index, Stub, block, guarded, opened, rows_of};
use crate::{
    Error,
    embedded::{
        format::{codec, key},
        memtable::Value,
    },
};
use std::ops::Bound;

/// A block as stored in sled.
pub(super) type Sealed = (sled::IVec, sled::IVec);

impl Index {
    /// The block that covers `key`: the last one that begins at or before it, if it is of the same kind.
    pub(super) fn covering(&self, key: &[u8]) -> Result<Option<Sealed>, Error> {
        let found = guarded(|| self.db()?.range::<&[u8], _>(..=key).next_back().transpose())?;
        Ok(found.filter(|(of, _)| of.first() == key.first()))
    }

    /// Returns the value of `key` as stored: complete, or the stand-in for one in pieces.
    fn row(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some((of, sealed)) = self.covering(key)? else { return Ok(None) };
        let plain = opened(&of, &sealed)?;
        Ok(block::find(&rows_of(&of, &plain)?, key).map(<[u8]>::to_vec))
    }

    /// The value of `key`, joined if it is in pieces.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        // The writer may replace the pieces between two of our reads; then they do not match and are read again.
        for _ in 0..8 {
            let Some(value) = self.row(key)? else { return Ok(None) };
            let Some(stub) = Stub::read(&value) else { return Ok(Some(Value::Indexed(value))) };
            if let Some(joined) = self.join(key, &stub)? {
                return Ok(Some(Value::Indexed(joined)));
            }
        }
        let what = codec::describe(key);
        Err(Error::Corrupt { what, why: "its pieces in the index do not match".into() })
    }

    pub(super) fn join(&self, key: &[u8], stub: &Stub) -> Result<Option<Vec<u8>>, Error> {
        let mut joined = Vec::with_capacity(stub.bytes);
        for n in 0..stub.pieces {
            let Some(piece) = self.row(&key::chunk(key, n))? else { return Ok(None) };
            joined.extend_from_slice(&piece);
        }
        Ok((joined.len() == stub.bytes && crc32c::crc32c(&joined) == stub.crc).then_some(joined))
    }

    /// Up to `limit` keys between `from` and `to`, in order.
    pub(crate) fn keys(&self, from: Bound<&[u8]>, to: &[u8], limit: usize) -> Result<Vec<Box<[u8]>>, Error> {
        let mut keys = Vec::new();
        self.visit(from, to, limit, |key, _| keys.push(key.into()))?;
        Ok(keys)
    }

    /// Up to `limit` rows between `from` and `to`, in order, without the pieces of long values.
    pub(crate) fn range(&self, from: Bound<&[u8]>, to: &[u8], limit: usize) -> Result<Vec<Found>, Error> {
        let mut rows: Vec<(Box<[u8]>, Vec<u8>)> = Vec::new();
        self.visit(from, to, limit, |key, value| rows.push((key.into(), value.to_vec())))?;
        let mut found = Vec::with_capacity(rows.len());
        for (key, value) in rows {
            let value = match Stub::read(&value) {
                None => Some(Value::Indexed(value)),
                Some(_) => self.get(&key)?,
            };
            found.extend(value.map(|value| (key, value)));
        }
        Ok(found)
    }

    /// Passes up to `limit` rows between `from` and `to` to `see`, in order. The writer may continue meanwhile. It
    /// moves rows only to later blocks, so none is missed, and a row that is met twice is passed once.
    fn visit(
        &self,
        from: Bound<&[u8]>,
        to: &[u8],
        limit: usize,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let mut left = limit;
        let mut passed: Bound<Box<[u8]>> = from.map(Into::into);
        let first = match from {
            Bound::Included(key) | Bound::Excluded(key) => self.covering(key)?,
            Bound::Unbounded => None,
        };
        let behind = match (&first, from) {
            (Some((of, _)), _) => Bound::Excluded(of.as_ref()),
            (None, from) => from,
        };
        let mut blocks = self.blocks(behind, to)?;
        let mut next =
            first.map_or_else(|| guarded(|| blocks.next().transpose()), |first| Ok(Some(first)))?;
        while let Some((of, sealed)) = next {
            let plain = opened(&of, &sealed)?;
            for (key, value) in rows_of(&of, &plain)? {
                let is_past = match &passed {
                    Bound::Included(from) => key >= from.as_ref(),
                    Bound::Excluded(from) => key > from.as_ref(),
                    Bound::Unbounded => true,
                };
                if !is_past {
                    continue;
                }
                if left == 0 || key >= to {
                    return Ok(());
                }
                see(key, value);
                left = left.saturating_sub(1);
                passed = Bound::Excluded(key.into());
            }
            next = guarded(|| blocks.next().transpose())?;
        }
        Ok(())
    }

    /// The blocks that begin behind `from` and before `to`.
    fn blocks(&self, from: Bound<&[u8]>, to: &[u8]) -> Result<sled::Iter, Error> {
        if matches!(from, Bound::Included(from) | Bound::Excluded(from) if from >= to) {
            return guarded(|| Ok(self.db()?.range::<&[u8], _>(to..to)));
        }
        guarded(|| Ok(self.db()?.range::<&[u8], _>((from, Bound::Excluded(to)))))
    }
}

/// Returns every row of the closed index in `folder` from `from` to before `to`, with stand-ins for long values.
#[cfg(test)]
pub(crate) fn rows_in(folder: &std::path::Path, from: &[u8], to: &[u8]) -> Vec<(Box<[u8]>, Vec<u8>)> {
    use super::{Progress, Verdict, open_verified};
    let options = crate::Options::default();
    let Verdict::Whole(found) = open_verified(folder, &options, &Progress::default()) else {
        panic!("the index in {} is not whole", folder.display());
    };
    let mut rows = Vec::new();
    found
        .index
        .visit(Bound::Included(from), to, usize::MAX, |key, value| rows.push((key.into(), value.to_vec())))
        .unwrap();
    rows
}
