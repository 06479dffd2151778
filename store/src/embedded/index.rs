//! sled as the index: every row of the store, behind the journal, and provably whole or thrown away.
//!
//! One thread writes, in batches of at most [`BATCH_BYTES`], each followed by a flush: with more buffered sled hangs
//! (ADR 0002). Each batch carries an account of the index as a whole, so that a scan on opening proves it whole.
//! Long values are cut into pieces, since sled never frees the files of long ones.

mod account;
mod scan;
mod verify;

pub(crate) use account::Account;
pub(crate) use verify::{Verdict, Verified, open_verified};

use super::{bytes::Cursor, bytes::length, envelope::Kind, key, overlay::Value, terms};
use crate::{Error, Sequence};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// At most so much goes to sled between two flushes, in bytes.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// Values longer than this are cut into pieces of this length, in bytes.
const PIECE_BYTES: usize = 60 << 10;
/// The first byte of the row that stands for a value in pieces; no envelope begins with it.
const PIECES: u8 = 0xC5;

/// What a batch does to the rows it names.
pub(crate) type Rows<'a> = BTreeMap<&'a [u8], Option<&'a [u8]>>;

/// A key and its whole value.
pub(crate) type Found = (Box<[u8]>, Value);

/// An open index.
pub(crate) struct Index {
    /// Taken out only to be dropped.
    db: Option<sled::Db>,
    progress: Progress,
    account: Mutex<Account>,
    folder: PathBuf,
}

/// The stand-in for a value in pieces.
struct Stub {
    pieces: u16,
    bytes: usize,
    crc: u32,
}

impl Stub {
    fn read(value: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(value);
        let is_stub = cursor.u8() == Some(PIECES);
        let stub =
            Self { pieces: cursor.u16()?, bytes: usize::try_from(cursor.u32()?).ok()?, crc: cursor.u32()? };
        (is_stub && cursor.is_empty()).then_some(stub)
    }

    fn write(value: &[u8]) -> Vec<u8> {
        let pieces = u16::try_from(value.len().div_ceil(PIECE_BYTES)).unwrap_or(u16::MAX);
        let mut stub = vec![PIECES];
        stub.extend_from_slice(&pieces.to_le_bytes());
        stub.extend_from_slice(&length(value.len()).to_le_bytes());
        stub.extend_from_slice(&crc32c::crc32c(value).to_le_bytes());
        stub
    }
}

/// Counts what gets done, so that whoever waits can tell slow from stuck.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(crate) fn moved(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs `work` on a thread of its own, and gives it up once it has not moved for `limit`; `None` then.
    pub(crate) fn watch<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = mpsc::sync_channel(1);
        // If nobody waits any more, the result is dropped there.
        let run = move || drop(done.send(work()));
        thread::Builder::new().name("store-open".into()).spawn(run).ok()?;
        let mut seen = 0;
        loop {
            match result.recv_timeout(limit.max(Duration::from_millis(1))) {
                Ok(value) => return Some(value),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let moved = self.0.load(Ordering::Relaxed);
                    if moved == seen {
                        return None;
                    }
                    seen = moved;
                }
            }
        }
    }
}

/// Runs what touches sled; its panics become errors.
pub(crate) fn guarded<T>(what: impl FnOnce() -> Result<T, sled::Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Error::Unavailable { why: format!("the index failed: {error}") }),
        Err(_) => Err(Error::Unavailable { why: "the index panicked".into() }),
    }
}

/// A batch on its way, and the account as it will be.
struct Pending {
    batch: sled::Batch,
    bytes: usize,
    account: Account,
}

impl Pending {
    /// One row as sled has it; each appears once in an application, so what sled shows is what it replaces.
    fn put(&mut self, key: &[u8], former: Option<&[u8]>, value: Option<&[u8]>) {
        if former.is_none() && value.is_none() {
            return;
        }
        if let Some(former) = former {
            self.account.subtract(key, former);
        }
        match value {
            Some(value) => {
                self.account.add(key, value);
                self.batch.insert(key, value);
            }
            None => self.batch.remove(key),
        }
        let bytes = key.len().saturating_add(value.map_or(0, <[u8]>::len));
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Drop for Index {
    /// sled flushes when it is dropped, and that can hang too; nobody waits for it longer than two seconds.
    fn drop(&mut self) {
        let (db, (done, dropped)) = (self.db.take(), mpsc::sync_channel::<()>(1));
        let spawned = thread::Builder::new().name("store-drop".into()).spawn(move || {
            drop(db);
            drop(done);
        });
        if spawned.is_ok() && dropped.recv_timeout(Duration::from_secs(2)) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the index in {} does not let itself be closed and is left behind",
                self.folder.display()
            );
        }
    }
}

impl Index {
    fn db(&self) -> Result<&sled::Db, sled::Error> {
        self.db.as_ref().ok_or_else(|| sled::Error::Unsupported("the index is closed".into()))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn account(&self) -> Account {
        *self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn applied(&self) -> Sequence {
        self.account().applied
    }

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
        for (key, value) in rows {
            self.change(&mut pending, key, *value)?;
        }
        pending.account.applied = applied.max(before.applied);
        self.flush(&mut pending)
    }

    /// Notes how often the store has been opened, and that every record has its terms since.
    pub(crate) fn set_opens(&self, opens: u64) -> Result<(), Error> {
        let mut pending = self.pending();
        pending.account.opens = opens;
        let former = guarded(|| self.db()?.get(key::TERMS_WHOLE))?;
        pending.put(key::TERMS_WHOLE, former.as_deref(), Some(&opens.to_le_bytes()));
        self.flush(&mut pending)
    }

    /// Whether every record has its terms: not so in an index that an earlier version has written to last.
    pub(crate) fn has_terms(&self) -> Result<bool, Error> {
        let noted = guarded(|| self.db()?.get(key::TERMS_WHOLE))?;
        Ok(noted.is_some_and(|opens| *opens == self.account().opens.to_le_bytes()))
    }

    /// Makes the terms that records lack.
    pub(crate) fn make_terms(&self) -> Result<(), Error> {
        const STEP: usize = 256;
        let (first, to) = key::all_records();
        let (mut pending, mut from) = (self.pending(), Bound::Included(first));
        loop {
            let rows = self.range(from.as_ref().map(Vec::as_slice), &to, STEP)?;
            for (key, value) in &rows {
                for term in terms::of_stored(key, Some(value.as_ref())) {
                    self.put_term(&mut pending, &term)?;
                }
                self.flush_if_full(&mut pending)?;
            }
            self.progress.moved();
            match rows.last() {
                Some((key, _)) if rows.len() == STEP => from = Bound::Excluded(key.to_vec()),
                Some(_) | None => return self.flush(&mut pending),
            }
        }
    }

    fn pending(&self) -> Pending {
        Pending { batch: sled::Batch::default(), bytes: 0, account: self.account() }
    }

    fn change(&self, pending: &mut Pending, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let former = guarded(|| self.db()?.get(key))?;
        let former_pieces = former.as_deref().and_then(Stub::read).map_or(0, |stub| stub.pieces);
        let long = value.filter(|value| value.len() > PIECE_BYTES);
        let mut pieces = long.unwrap_or_default().chunks(PIECE_BYTES);
        let count = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
        // A record, its pieces and its terms are one batch: were they cut apart by a crash, nobody could tell afterwards
        // which terms it had.
        let is_record = key.first() == Some(&(Kind::Record as u8));
        if is_record {
            let size = value.map_or(0, <[u8]>::len);
            if pending.bytes > 0 && pending.bytes.saturating_add(size) > BATCH_BYTES {
                self.flush(pending)?;
            }
            self.change_terms(pending, key, former.as_deref(), value)?;
        }
        for n in 0..count.max(former_pieces) {
            let key = key::chunk(key, n);
            let former = guarded(|| self.db()?.get(&key))?;
            pending.put(&key, former.as_deref(), pieces.next());
            if !is_record {
                self.flush_if_full(pending)?;
            }
        }
        match long {
            Some(value) => pending.put(key, former.as_deref(), Some(&Stub::write(value))),
            None => pending.put(key, former.as_deref(), value),
        }
        self.flush_if_full(pending)
    }

    /// Takes the terms away that the record of `key` no longer has, and gives it those that it lacks.
    fn change_terms(
        &self,
        pending: &mut Pending,
        key: &[u8],
        former: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        let joined = match former.and_then(Stub::read) {
            Some(stub) => self.join(key, &stub)?,
            None => None,
        };
        let had = joined.as_deref().or(former).map(|former| terms::of_stored(key, Some(former)));
        let has = terms::of_stored(key, value);
        // A record that is there and can be read has just its terms, and one that is not there has none; only of one that
        // cannot be read is it not known which are left of it.
        if had.as_ref().is_some_and(BTreeSet::is_empty) {
            return has.iter().try_for_each(|term| self.put_term(pending, term));
        }
        let had = had.unwrap_or_default();
        had.difference(&has).for_each(|term| pending.put(term, Some(&[]), None));
        has.difference(&had).for_each(|term| pending.put(term, None, Some(&[])));
        Ok(())
    }

    fn put_term(&self, pending: &mut Pending, term: &[u8]) -> Result<(), Error> {
        if guarded(|| self.db()?.contains_key(term))? {
            return Ok(());
        }
        pending.put(term, None, Some(&[]));
        Ok(())
    }

    fn flush_if_full(&self, pending: &mut Pending) -> Result<(), Error> {
        if pending.bytes >= BATCH_BYTES { self.flush(pending) } else { Ok(()) }
    }

    fn flush(&self, pending: &mut Pending) -> Result<(), Error> {
        let mut batch = std::mem::take(&mut pending.batch);
        batch.insert(key::META, pending.account.encode());
        guarded(|| {
            self.db()?.apply_batch(batch)?;
            self.db()?.flush()
        })?;
        self.progress.moved();
        pending.bytes = 0;
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = pending.account;
        Ok(())
    }

    /// The value of `key`, joined if it is in pieces.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        // The writer may replace the pieces between two of our reads; then they do not match and are read again.
        for _ in 0..8 {
            let Some(value) = guarded(|| self.db()?.get(key))? else { return Ok(None) };
            let Some(stub) = Stub::read(&value) else { return Ok(Some(Value::Indexed(value))) };
            if let Some(joined) = self.join(key, &stub)? {
                return Ok(Some(Value::Joined(joined)));
            }
        }
        let what = super::codec::describe(key);
        Err(Error::Corrupt { what, why: "its pieces in the index do not match".into() })
    }

    fn join(&self, key: &[u8], stub: &Stub) -> Result<Option<Vec<u8>>, Error> {
        let mut joined = Vec::with_capacity(stub.bytes);
        for n in 0..stub.pieces {
            let Some(piece) = guarded(|| self.db()?.get(key::chunk(key, n)))? else { return Ok(None) };
            joined.extend_from_slice(&piece);
        }
        Ok((joined.len() == stub.bytes && crc32c::crc32c(&joined) == stub.crc).then_some(joined))
    }

    /// Up to `limit` keys between `from` and `to`, in order.
    pub(crate) fn keys(&self, from: Bound<&[u8]>, to: &[u8], limit: usize) -> Result<Vec<sled::IVec>, Error> {
        guarded(|| self.db()?.range::<&[u8], _>((from, Bound::Excluded(to))).keys().take(limit).collect())
    }

    /// Up to `limit` rows between `from` and `to`, in order, without the pieces of long values.
    pub(crate) fn range(&self, from: Bound<&[u8]>, to: &[u8], limit: usize) -> Result<Vec<Found>, Error> {
        let rows = guarded(|| {
            self.db()?
                .range::<&[u8], _>((from, Bound::Excluded(to)))
                .take(limit)
                .collect::<Result<Vec<_>, _>>()
        })?;
        let mut found = Vec::with_capacity(rows.len());
        for (key, value) in rows {
            let value = match Stub::read(&value) {
                None => Some(Value::Indexed(value)),
                Some(_) => self.get(&key)?,
            };
            if let Some(value) = value {
                found.push((key.as_ref().into(), value));
            }
        }
        Ok(found)
    }
}
