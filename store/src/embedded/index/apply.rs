//! Applies rows to the index: block by block, each written once, so that a crash never loses rows.
//!
//! The terms of a record are written before the record, and its old terms are removed after it. So a record has all
//! its terms at every moment, and a replay needs only the difference. A crash may leave extra terms, so a search also
//! checks the record.

use super::{
    Index, PIECE_BYTES, Pending, Rows, Stub,
    block::{self, Change},
    guarded, opened,
    read::Sealed,
    rows_of,
};
use crate::{
    Error, Sequence,
    embedded::format::{envelope::Kind, index_keys, key},
};
use std::{
    collections::BTreeMap,
    ops::{Bound, Range},
};

/// The bytes of rows processed at once: neighbouring rows, mostly terms, are written once for all of them.
const SLICE_BYTES: usize = 256 << 10;

/// The rows that only the index has, by key, with their new values; `None` deletes.
type SideRows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The target of changes (a block, or the start of a new one), and the changes.
struct BlockChange {
    key: Vec<u8>,
    sealed: Option<sled::IVec>,
    plain: Vec<u8>,
    changes: Range<usize>,
}

impl Index {
    /// Applies `rows`, which bring the index up to `upto`, and flushes. A repeated application changes nothing.
    pub(crate) fn apply(&self, rows: &Rows<'_>, upto: Sequence) -> Result<(), Error> {
        self.load(rows, upto, upto)
    }

    /// Applies `rows` of a state without any change after `touched`. Afterwards the index has everything up to
    /// `applied`.
    pub(crate) fn load(&self, rows: &Rows<'_>, applied: Sequence, touched: Sequence) -> Result<(), Error> {
        let before = self.stats();
        let mut pending = self.pending();
        pending.stats.touched = touched.max(before.touched);
        let mut changes: Vec<Change<'_>> = Vec::new();
        let mut bytes = 0_usize;
        for (key, value) in rows {
            changes.push((key, *value));
            bytes = bytes.saturating_add(key.len()).saturating_add(value.map_or(0, <[u8]>::len));
            if bytes >= SLICE_BYTES {
                self.change(&mut pending, &changes)?;
                changes.clear();
                bytes = 0;
            }
        }
        self.change(&mut pending, &changes)?;
        pending.stats.applied = applied.max(before.applied);
        self.flush(&mut pending)
    }

    fn change(&self, pending: &mut Pending, changes: &[Change<'_>]) -> Result<(), Error> {
        // The blocks are rebuilt from the rows in sled, so no write may be pending.
        if pending.bytes > 0 {
            self.flush(pending)?;
        }
        let block_changes = self.block_changes(changes)?;
        let (mut side, mut gone) = (SideRows::new(), SideRows::new());
        let mut stubs: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for block_change in &block_changes {
            let had = rows_of(&block_change.key, &block_change.plain)?;
            for at in block_change.changes.clone() {
                let Some((key, value)) = changes.get(at).copied() else { continue };
                let former = block::find(&had, key);
                if key.first() == Some(&(Kind::Record as u8)) {
                    self.change_index_keys((&mut side, &mut gone), key, former, value)?;
                }
                stubs.extend(cut_up(&mut side, key, former, value).map(|stub| (at, stub)));
            }
        }
        self.write_side(pending, &side)?;
        let mut changes: Vec<Change<'_>> = changes.to_vec();
        for (at, stub) in &stubs {
            if let Some((_, value)) = changes.get_mut(*at) {
                *value = Some(stub);
            }
        }
        block_changes.iter().try_for_each(|block_change| self.rewrite(pending, block_change, &changes))?;
        if !gone.is_empty() {
            self.flush(pending)?;
            self.write_side(pending, &gone)?;
        }
        Ok(())
    }

    fn write_side(&self, pending: &mut Pending, side: &SideRows) -> Result<(), Error> {
        let changes: Vec<Change<'_>> =
            side.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        self.block_changes(&changes)?
            .iter()
            .try_for_each(|block_change| self.rewrite(pending, block_change, &changes))
    }

    /// Returns the target of each of `changes`, which are in the order of keys.
    fn block_changes(&self, changes: &[Change<'_>]) -> Result<Vec<BlockChange>, Error> {
        let mut block_changes = Vec::new();
        let mut at = 0_usize;
        while let Some((first, _)) = changes.get(at) {
            let kind: Vec<u8> = first.iter().copied().take(1).collect();
            let found = self.covering(first)?;
            // The first block of a kind has the key of the kind itself, so that it covers every earlier row.
            let (key, sealed) = match found {
                Some((key, sealed)) => (key.to_vec(), Some(sealed)),
                None => (kind.clone(), None),
            };
            let end = self.next_block(&key)?;
            let within = |(key, _): &&Change<'_>| {
                key.first() == kind.first() && end.as_ref().is_none_or(|(end, _)| *key < end.as_ref())
            };
            let count = changes.iter().skip(at).take_while(within).count().max(1);
            let plain = match &sealed {
                Some(sealed) => opened(&key, sealed)?,
                None => Vec::new(),
            };
            let until = at.saturating_add(count);
            block_changes.push(BlockChange { key, sealed, plain, changes: at..until });
            at = until;
        }
        Ok(block_changes)
    }

    /// Returns the block after that of `key`.
    fn next_block(&self, key: &[u8]) -> Result<Option<Sealed>, Error> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        guarded(|| self.db()?.range::<&[u8], _>(behind).next().transpose())
    }

    /// Rewrites a block with its changes. All parts with existing rows are in one batch: otherwise a crash would lose
    /// rows that the journal no longer has. A growing block has them in its first part, and the later rows are still
    /// in the journal.
    fn rewrite(
        &self,
        pending: &mut Pending,
        block_change: &BlockChange,
        changes: &[Change<'_>],
    ) -> Result<(), Error> {
        let had = rows_of(&block_change.key, &block_change.plain)?;
        let changes = changes.get(block_change.changes.clone()).unwrap_or_default();
        let has = block::changed(&had, changes);
        if has == had {
            return Ok(());
        }
        pending.stats.live = pending.stats.live.wrapping_sub(block::live(&had));
        let first = changes.first().map(|(key, _)| *key);
        let grow = had.last().map(|(key, _)| *key) < first;
        let parts = block::cut(&has, grow);
        if parts.is_empty() {
            pending.put(&block_change.key, block_change.sealed.as_deref(), None);
        }
        for (n, part) in parts.into_iter().enumerate() {
            let sealed = Some(block::seal(part));
            pending.stats.live = pending.stats.live.wrapping_add(block::live(part));
            match part.first().filter(|_| n > 0) {
                Some((key, _)) => pending.put(key, None, sealed),
                None => pending.put(&block_change.key, block_change.sealed.as_deref(), sealed),
            }
            if grow {
                self.flush_if_full(pending)?;
            }
        }
        self.flush_if_full(pending)
    }

    /// Removes the terms that the record of `key` no longer has, and adds the missing ones.
    fn change_index_keys(
        &self,
        (side, gone): (&mut SideRows, &mut SideRows),
        key: &[u8],
        former: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        let joined = match former.and_then(Stub::read) {
            Some(stub) => self.join(key, &stub)?,
            None => None,
        };
        let had = joined.as_deref().or(former).map(|former| index_keys::for_stored(key, Some(former)));
        let (had, has) = (had.unwrap_or_default(), index_keys::for_stored(key, value));
        gone.extend(had.difference(&has).map(|term| (term.clone(), None)));
        side.extend(has.difference(&had).map(|term| (term.clone(), Some(Vec::new()))));
        Ok(())
    }
}

/// Splits a long value into pieces, and removes the extra pieces of the old value. Returns the stand-in.
fn cut_up(side: &mut SideRows, key: &[u8], former: Option<&[u8]>, value: Option<&[u8]>) -> Option<Vec<u8>> {
    let former = former.and_then(Stub::read).map_or(0, |stub| stub.pieces);
    let long = value.filter(|value| value.len() > PIECE_BYTES);
    let mut pieces = long.unwrap_or_default().chunks(PIECE_BYTES);
    let count = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
    for n in 0..count.max(former) {
        side.insert(key::chunk(key, n), pieces.next().map(<[u8]>::to_vec));
    }
    long.map(Stub::write)
}
