//! Taking rows over: block by block, each written once, and never so that a crash leaves less than was there.
//!
//! What a record is found by is written before the record, and what it is no longer found by is taken away after it: at every moment
//! the record that is there has all its terms, so a replay needs only the difference, to whatever commit it leads. What a crash may
//! leave are terms too many; whoever goes by a term looks at the record too.

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

/// So many bytes of rows are worked on at once: what they have beside each other, terms above all, is written once for all of them.
const SLICE_BYTES: usize = 256 << 10;

/// Rows that only the index has, by key: what they are to be, or that they are to go.
type SideRows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Where changes go: a block, or where one is to begin, and which of the changes.
struct BlockChange {
    key: Vec<u8>,
    sealed: Option<sled::IVec>,
    plain: Vec<u8>,
    changes: Range<usize>,
}

impl Index {
    /// Applies `rows`, which bring the index up to `upto`, and flushes. Applying them again changes nothing more.
    pub(crate) fn apply(&self, rows: &Rows<'_>, upto: Sequence) -> Result<(), Error> {
        self.load(rows, upto, upto)
    }

    /// Applies `rows` that are part of a state in which nothing after `touched` has a share; once they are in, the
    /// index holds everything up to `applied`.
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
        // What sled shows is what the blocks are made of: nothing of it may be on its way.
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

    /// Where each of `changes`, which are in the order of keys, goes.
    fn block_changes(&self, changes: &[Change<'_>]) -> Result<Vec<BlockChange>, Error> {
        let mut block_changes = Vec::new();
        let mut at = 0_usize;
        while let Some((first, _)) = changes.get(at) {
            let kind: Vec<u8> = first.iter().copied().take(1).collect();
            let found = self.covering(first)?;
            // The first block of a kind is at the kind itself, so that it covers whatever comes before it.
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

    /// The block behind that of `key`.
    fn next_block(&self, key: &[u8]) -> Result<Option<Sealed>, Error> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        guarded(|| self.db()?.range::<&[u8], _>(behind).next().transpose())
    }

    /// Writes a block anew with the changes that are its own. All parts with rows that were there are in one batch: with some of them
    /// alone a crash would lose rows that no journal has any more. Of a block that grows these are in the first part, and what is behind
    /// comes from the journal.
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

    /// Takes the terms away that the record of `key` no longer has, and gives it those that it lacks.
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

/// Cuts a long value into pieces, and takes those away that the former one had and this one has not; what stands for it, then.
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
