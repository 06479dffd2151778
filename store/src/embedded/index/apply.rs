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
type Aside = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Where changes go: a block, or where one is to begin, and which of the changes.
struct Spot {
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
        let before = self.account();
        let mut pending = self.pending();
        pending.account.touched = touched.max(before.touched);
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
        pending.account.applied = applied.max(before.applied);
        self.flush(&mut pending)
    }

    fn change(&self, pending: &mut Pending, changes: &[Change<'_>]) -> Result<(), Error> {
        // What sled shows is what the blocks are made of: nothing of it may be on its way.
        if pending.bytes > 0 {
            self.flush(pending)?;
        }
        let spots = self.spots(changes)?;
        let (mut aside, mut gone) = (Aside::new(), Aside::new());
        let mut stubs: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for spot in &spots {
            let had = rows_of(&spot.key, &spot.plain)?;
            for at in spot.changes.clone() {
                let Some((key, value)) = changes.get(at).copied() else { continue };
                let former = block::find(&had, key);
                if key.first() == Some(&(Kind::Record as u8)) {
                    self.change_terms((&mut aside, &mut gone), key, former, value)?;
                }
                stubs.extend(cut_up(&mut aside, key, former, value).map(|stub| (at, stub)));
            }
        }
        self.put_aside(pending, &aside)?;
        let mut changes: Vec<Change<'_>> = changes.to_vec();
        for (at, stub) in &stubs {
            if let Some((_, value)) = changes.get_mut(*at) {
                *value = Some(stub);
            }
        }
        spots.iter().try_for_each(|spot| self.rewrite(pending, spot, &changes))?;
        if !gone.is_empty() {
            self.flush(pending)?;
            self.put_aside(pending, &gone)?;
        }
        Ok(())
    }

    fn put_aside(&self, pending: &mut Pending, aside: &Aside) -> Result<(), Error> {
        let changes: Vec<Change<'_>> =
            aside.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        self.spots(&changes)?.iter().try_for_each(|spot| self.rewrite(pending, spot, &changes))
    }

    /// Where each of `changes`, which are in the order of keys, goes.
    fn spots(&self, changes: &[Change<'_>]) -> Result<Vec<Spot>, Error> {
        let mut spots = Vec::new();
        let mut at = 0_usize;
        while let Some((first, _)) = changes.get(at) {
            let kind: Vec<u8> = first.iter().copied().take(1).collect();
            let found = self.covering(first)?;
            // The first block of a kind is at the kind itself, so that it covers whatever comes before it.
            let (key, sealed) = match found {
                Some((key, sealed)) => (key.to_vec(), Some(sealed)),
                None => (kind.clone(), None),
            };
            let end = self.end(&key)?;
            let within = |(key, _): &&Change<'_>| {
                key.first() == kind.first() && end.as_ref().is_none_or(|(end, _)| *key < end.as_ref())
            };
            let count = changes.iter().skip(at).take_while(within).count().max(1);
            let plain = match &sealed {
                Some(sealed) => opened(&key, sealed)?,
                None => Vec::new(),
            };
            let until = at.saturating_add(count);
            spots.push(Spot { key, sealed, plain, changes: at..until });
            at = until;
        }
        Ok(spots)
    }

    /// The block behind that of `key`.
    fn end(&self, key: &[u8]) -> Result<Option<Sealed>, Error> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        guarded(|| self.db()?.range::<&[u8], _>(behind).next().transpose())
    }

    /// Writes a block anew with the changes that are its own. All parts with rows that were there are in one batch: with some of them
    /// alone a crash would lose rows that no journal has any more. Of a block that grows these are in the first part, and what is behind
    /// comes from the journal.
    fn rewrite(&self, pending: &mut Pending, spot: &Spot, changes: &[Change<'_>]) -> Result<(), Error> {
        let had = rows_of(&spot.key, &spot.plain)?;
        let changes = changes.get(spot.changes.clone()).unwrap_or_default();
        let has = block::changed(&had, changes);
        if has == had {
            return Ok(());
        }
        pending.account.live = pending.account.live.wrapping_sub(block::live(&had));
        let first = changes.first().map(|(key, _)| *key);
        let grow = had.last().map(|(key, _)| *key) < first;
        let parts = block::cut(&has, grow);
        if parts.is_empty() {
            pending.put(&spot.key, spot.sealed.as_deref(), None);
        }
        for (n, part) in parts.into_iter().enumerate() {
            let sealed = Some(block::seal(part));
            pending.account.live = pending.account.live.wrapping_add(block::live(part));
            match part.first().filter(|_| n > 0) {
                Some((key, _)) => pending.put(key, None, sealed),
                None => pending.put(&spot.key, spot.sealed.as_deref(), sealed),
            }
            if grow {
                self.flush_if_full(pending)?;
            }
        }
        self.flush_if_full(pending)
    }

    /// Takes the terms away that the record of `key` no longer has, and gives it those that it lacks.
    fn change_terms(
        &self,
        (aside, gone): (&mut Aside, &mut Aside),
        key: &[u8],
        former: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        let joined = match former.and_then(Stub::read) {
            Some(stub) => self.join(key, &stub)?,
            None => None,
        };
        let had = joined.as_deref().or(former).map(|former| index_keys::of_stored(key, Some(former)));
        let (had, has) = (had.unwrap_or_default(), index_keys::of_stored(key, value));
        gone.extend(had.difference(&has).map(|term| (term.clone(), None)));
        aside.extend(has.difference(&had).map(|term| (term.clone(), Some(Vec::new()))));
        Ok(())
    }
}

/// Cuts a long value into pieces, and takes those away that the former one had and this one has not; what stands for it, then.
fn cut_up(aside: &mut Aside, key: &[u8], former: Option<&[u8]>, value: Option<&[u8]>) -> Option<Vec<u8>> {
    let former = former.and_then(Stub::read).map_or(0, |stub| stub.pieces);
    let long = value.filter(|value| value.len() > PIECE_BYTES);
    let mut pieces = long.unwrap_or_default().chunks(PIECE_BYTES);
    let count = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
    for n in 0..count.max(former) {
        aside.insert(key::chunk(key, n), pieces.next().map(<[u8]>::to_vec));
    }
    long.map(Stub::write)
}
