//! Follows the journal, seals its entries, and signs checkpoints.
//!
//! Every commit is conditional on the cursor and moves it. Several auditors can therefore run on one store, and an auditor that fails between two
//! commits neither skips nor repeats an entry.

use crate::{
    audit::{
        chain::{ChainHead, Cursor, SealedHead, chain_of, head, put, read},
        checkpoint::{CHECKPOINT_TYPE, Checkpoint, SealedCheckpoint, sign},
        entry::ActorKind,
        render::{ExecutionContext, audit_entry, policy_of},
        whereabouts::Whereabouts,
    },
    platform::Platform,
    signing::Signer,
};
use engine::{AuditContext, Engine, Entity, Error};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, btree_map::Entry as Slot},
    sync::Arc,
    time::Duration,
};
use store::{Commit, Entry, ExecutionId, Key, Put, Sequence, Store, Timestamp};

/// The collection of the server's users, by name.
const USERS: &str = "users";

/// The fields of a user that the audit needs.
#[derive(Deserialize)]
struct KnownUser {
    #[serde(default)]
    kind: String,
}

/// The maximum number of journal entries in one sealing commit, unless one commit wrote more.
const BATCH: usize = 256;
/// The number of grown chains at which a checkpoint is due. It bounds the size of a checkpoint.
const MOST_GROWN: usize = 1_000;

/// The conditions for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The number of unsigned entries.
    pub entries: u64,
    /// The time since the last checkpoint, if there are unsigned entries.
    pub every: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { entries: 1_000, every: Duration::from_secs(60) }
    }
}

/// The lag of the audit behind the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The number of sealed entries.
    pub sealed: u64,
    /// The number of sealed entries that no signed checkpoint covers.
    pub unsigned: u64,
    /// The age of the oldest unsealed journal entry. Zero if all entries are sealed.
    pub oldest: Duration,
    /// The number of checkpoints.
    pub checkpoints: u64,
}

/// Seals journal entries. Cheap to clone. It calls no platform, so it works with every engine.
#[derive(Debug)]
pub struct Auditor<P = Platform> {
    engine: Engine<P>,
    signer: Arc<dyn Signer>,
    pace: Pace,
}

impl<P> Clone for Auditor<P> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), signer: self.signer.clone(), pace: self.pace }
    }
}

impl<P: Send + Sync + 'static> Auditor<P> {
    /// Returns an auditor for `engine`.
    #[must_use]
    pub fn new(engine: Engine<P>, signer: Arc<dyn Signer>, pace: Pace) -> Self {
        Self { engine, signer, pace }
    }

    fn store(&self) -> &dyn Store {
        &**self.engine.store()
    }

    /// Seals the next entries of the journal and returns their number. Returns 0 once all are sealed.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn seal(&self) -> Result<usize, Error> {
        loop {
            if let Some(sealed) = self.try_seal().await? {
                return Ok(sealed);
            }
        }
    }

    /// As [`Self::seal`]. Returns `None` if another auditor moved the cursor first.
    async fn try_seal(&self) -> Result<Option<usize>, Error> {
        let (found, at) = read::<Cursor>(self.store(), &Cursor::default().id()).await?;
        let mut cursor = found.unwrap_or_default();
        let batch = self.next_commits(&cursor).await?;
        let Some((_, last)) = batch.last() else { return Ok(Some(0)) };
        let (last, began) = (last.sequence.0, batch.first().map(|(_, first)| first.sequence.0));
        let (documents, grown) = self.chain_entries(&batch).await?;
        let sealed = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        cursor.began = cursor.began.or(began);
        cursor.after = Some(last);
        cursor.sealed = cursor.sealed.saturating_add(sealed);
        cursor.unsigned = cursor.unsigned.saturating_add(sealed);
        cursor.grown.extend(grown);
        Ok(self.commit_cursor(at, &cursor, documents).await?.then_some(batch.len()))
    }

    /// Returns the entries of the next commits. Commits are never split, so the cursor is a commit number.
    async fn next_commits(&self, cursor: &Cursor) -> Result<Vec<(u32, Entry)>, Error> {
        let after = cursor.after.map(|after| (Sequence(after), u32::MAX));
        let mut limit = BATCH;
        loop {
            let page = self.store().history(after, limit).await?;
            let mut batch = page.items;
            if page.next.is_none() {
                return Ok(batch);
            }
            let cut = batch.last().map(|(_, last)| last.sequence);
            batch.retain(|(_, entry)| Some(entry.sequence) != cut);
            if !batch.is_empty() {
                return Ok(batch);
            }
            limit = limit.saturating_mul(4);
        }
    }

    /// Returns the entries in their chains, the new heads, and the names of the grown chains.
    async fn chain_entries(&self, batch: &[(u32, Entry)]) -> Result<(Vec<Put>, Vec<String>), Error> {
        let mut known: BTreeMap<ExecutionId, ExecutionContext> = BTreeMap::new();
        let mut heads: BTreeMap<String, Option<ChainHead>> = BTreeMap::new();
        let (mut documents, mut users) = (Vec::new(), BTreeMap::new());
        for (place, of) in batch {
            let known = match known.entry(of.execution) {
                Slot::Occupied(found) => found.into_mut(),
                Slot::Vacant(free) => free.insert(self.execution_context(of.execution).await?),
            };
            let mut entry = audit_entry(of, *place, known);
            entry.kind = ActorKind::of(&of.actor, &of.event, self.is_service(&of.actor, &mut users).await?);
            let chain = chain_of(&entry.tenant).to_owned();
            let before = match heads.remove(&chain) {
                Some(before) => before,
                None => head(self.store(), &chain).await?,
            };
            entry.number = before.as_ref().map_or(0, |head| head.number).saturating_add(1);
            entry.previous = before.map(|head| head.digest);
            documents.push(put(&entry)?);
            let head = ChainHead { chain: chain.clone(), number: entry.number, digest: entry.digest() };
            heads.insert(chain, Some(head));
        }
        for head in heads.values().flatten() {
            documents.push(put(head)?);
        }
        Ok((documents, heads.into_keys().collect()))
    }

    /// Returns true if the user of this name is a service. `None` if there is no such user.
    async fn is_service(
        &self,
        name: &str,
        seen: &mut BTreeMap<String, Option<bool>>,
    ) -> Result<Option<bool>, Error> {
        if let Some(known) = seen.get(name) {
            return Ok(*known);
        }
        let found = self.store().document(&Key::new(USERS, name)).await?;
        let known = found.map(|user| {
            serde_json::from_slice::<KnownUser>(&user.body).is_ok_and(|user| user.kind == "service")
        });
        seen.insert(name.to_owned(), known);
        Ok(known)
    }

    /// Returns the context of an execution. An execution that cannot be decoded has no plan there.
    async fn execution_context(&self, id: ExecutionId) -> Result<ExecutionContext, Error> {
        if id == AuditContext::no_execution() {
            return Ok(ExecutionContext::default());
        }
        let record = self.store().load(id).await;
        let record = match record {
            Ok(record) => record,
            // A corrupt record is reported elsewhere. The entries of that execution go to the platform's own chain.
            Err(store::Error::Corrupt { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let stands = match &record {
            Some(_) => self.engine.execution(id).await.ok(),
            None => None,
        };
        // The plan of an execution that this version cannot read is unknown until an approval of it exists.
        let stands = stands.map(|(_, shown)| shown);
        let whereabouts = stands.as_ref().map(|shown| Whereabouts::of_plan(&shown.plan)).unwrap_or_default();
        let current_plan = stands
            .filter(|shown| !shown.digest.0.is_empty())
            .map(|shown| (shown.digest.0, policy_of(&shown.plan.decides)));
        let cases = self.engine.approval_records(id).await?;
        Ok(ExecutionContext { record, cases, current_plan, whereabouts })
    }

    /// Commits the decisions if the cursor is unchanged. Returns false if another auditor moved it.
    async fn commit_cursor(
        &self,
        at: store::Read,
        cursor: &Cursor,
        mut documents: Vec<Put>,
    ) -> Result<bool, Error> {
        documents.push(put(cursor)?);
        match self.store().commit(Commit { reads: vec![at], documents, ..Commit::default() }).await {
            Ok(_) => Ok(true),
            Err(store::Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Seals all entries, and signs a checkpoint if one is due.
    ///
    /// # Errors
    /// The errors of the store or of the signer.
    pub async fn catch_up(&self) -> Result<(), Error> {
        while self.seal().await? > 0 {
            self.checkpoint_if_due().await?;
        }
        self.checkpoint_if_due().await?;
        Ok(())
    }

    async fn checkpoint_if_due(&self) -> Result<(), Error> {
        let cursor = super::cursor(self.store()).await?;
        let waited = self.engine.clock().now().since(cursor.checkpoint_at);
        let due = cursor.unsigned >= self.pace.entries
            || cursor.grown.len() >= MOST_GROWN
            || waited >= self.pace.every;
        if due && cursor.unsigned > 0 {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Signs the heads of all chains that have grown since the last checkpoint. Returns false if none has. Afterwards a checkpoint covers all entries
    /// sealed before.
    ///
    /// # Errors
    /// The errors of the store; a transient `audit.unsigned` with the signer's error.
    pub async fn checkpoint(&self) -> Result<bool, Error> {
        loop {
            if let Some(signed) = self.try_checkpoint().await? {
                return Ok(signed);
            }
        }
    }

    /// As [`Self::checkpoint`]. Returns `None` if another auditor moved the cursor first.
    async fn try_checkpoint(&self) -> Result<Option<bool>, Error> {
        let (found, at) = read::<Cursor>(self.store(), &Cursor::default().id()).await?;
        let Some(mut cursor) = found.filter(|cursor| !cursor.grown.is_empty()) else {
            return Ok(Some(false));
        };
        let now = self.engine.clock().now();
        let number = cursor.checkpoint.as_ref().map_or(0, |(number, _)| *number).saturating_add(1);
        let (mut commitments, mut documents) = (Vec::new(), Vec::new());
        for chain in std::mem::take(&mut cursor.grown) {
            let Some(head) = head(self.store(), &chain).await? else { continue };
            commitments.push(head.commitment());
            documents.push(put(&SealedHead { chain, checkpoint: number, number: head.number })?);
        }
        commitments.sort();
        let checkpoint = Checkpoint {
            number,
            previous: cursor.checkpoint.map(|(_, digest)| digest),
            at: now.into(),
            entries: cursor.sealed,
            heads: commitments,
        };
        let by = sign(CHECKPOINT_TYPE, &checkpoint, &*self.signer).await.map_err(unsigned)?;
        cursor.checkpoint = Some((number, checkpoint.digest()));
        cursor.checkpoint_at = now;
        cursor.signed = cursor.after;
        cursor.unsigned = 0;
        documents.push(put(&SealedCheckpoint { checkpoint, by })?);
        Ok(self.commit_cursor(at, &cursor, documents).await?.then_some(true))
    }

    /// Returns the signer for the end of an export.
    pub(super) fn signer(&self) -> &dyn Signer {
        &*self.signer
    }

    pub(super) fn engine(&self) -> &Engine<P> {
        &self.engine
    }

    /// Returns the lag of the audit.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn lag(&self) -> Result<Lag, Error> {
        let cursor = super::cursor(self.store()).await?;
        let after = cursor.after.map(|after| (Sequence(after), u32::MAX));
        let oldest: Option<Timestamp> =
            self.store().history(after, 1).await?.items.first().map(|(_, entry)| entry.at);
        let now = self.engine.clock().now();
        Ok(Lag {
            sealed: cursor.sealed,
            unsigned: cursor.unsigned,
            oldest: oldest.map(|oldest| now.since(oldest)).unwrap_or_default(),
            checkpoints: cursor.checkpoint.map_or(0, |(number, _)| number),
        })
    }
}

pub(super) fn unsigned(why: String) -> Error {
    Error::Undecided(engine::ActionError::transient("audit.unsigned", why))
}
