//! Erases executions that finished long ago: their record, their history and the links to their children, and nothing
//! else.
//!
//! Approvals, votes, decisions and all other documents remain. An execution is erased in several commits, each
//! conditional on its record, and the record goes with the last one. So the next run finds and continues an
//! interrupted erasure. Invariant: no execution is erased that is open, has an open parent, has tasks, or has
//! unsealed history.

use crate::{Engine, Error, Parent, model::documents::collection, search::attributes::LEFTOVERS};
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{
    Commit, CompositeKey, ERASE_LIMIT, Entry, Erase, ExecutionId, Filter, Key, Put, Read, Record, Sequence,
    Timestamp,
};

/// How long finished executions are retained after their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// The default for all workflows; `None` is forever.
    pub default: Option<Duration>,
    /// The retention of single workflows, by name; `None` is forever.
    pub by_workflow: BTreeMap<String, Option<Duration>>,
    /// Tenants under a legal hold: nothing of them is erased.
    pub held: BTreeSet<String>,
}

impl RetentionPolicy {
    fn span(&self, workflow: &str) -> Option<Duration> {
        self.by_workflow.get(workflow).copied().unwrap_or(self.default)
    }

    /// Returns the latest start of an execution that can be due, or `None` if none can be.
    fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        let spans = self.by_workflow.values().copied().chain([self.default]).flatten();
        let shortest = u64::try_from(spans.min()?.as_millis()).unwrap_or(u64::MAX);
        now.0.checked_sub(shortest).map(Timestamp)
    }

    fn is_due(&self, record: &Record, now: Timestamp) -> bool {
        let over = |span| now.0.checked_sub(record.updated_at.0).is_some_and(|age| u128::from(age) >= span);
        !record.open && self.span(&record.workflow).is_some_and(|span| over(span.as_millis()))
    }
}

/// A finished execution that is old enough, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredExecution {
    /// Its record.
    pub record: Record,
    /// Why it is retained; `None` if it was or would be erased.
    pub kept_reason: Option<&'static str>,
}

/// One batch of [`Engine::expire`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiryBatch {
    /// The executions that were old enough.
    pub examined: Vec<ExpiredExecution>,
    /// The `after` of the next call; `None` at the end.
    pub next: Option<ExecutionId>,
}

/// The parent field of an execution's body.
#[derive(Deserialize)]
struct ParentField {
    #[serde(default)]
    parent: Option<Parent>,
}

/// The reasons to retain an execution.
mod why {
    pub(super) const UNSEALED: &str = "its history is not covered by a signed checkpoint of the audit";
    pub(super) const LEFTOVERS: &str = "its leftovers have not been released";
    pub(super) const HELD: &str = "its tenant is under a legal hold";
    pub(super) const WORK: &str = "it still has tasks";
    pub(super) const PARENT: &str = "the execution that started it is open";
    pub(super) const UNREADABLE: &str = "its body cannot be read";
    pub(super) const MOVED: &str = "it has changed meanwhile";
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Checks up to `limit` executions, oldest first, after `after`. With `erase`, erases those whose retention by
    /// `keep` is over and whose history is sealed by `sealed`, from the first to the last entry. Without it, reports
    /// them.
    ///
    /// # Errors
    /// Returns the store's error. Earlier erasures stay; the next call continues.
    pub async fn expire(
        &self,
        keep: &RetentionPolicy,
        sealed: impl Fn(Sequence, Sequence) -> bool + Send + Sync,
        after: Option<ExecutionId>,
        limit: usize,
        erase: bool,
    ) -> Result<ExpiryBatch, Error> {
        let now = self.inner.clock.now();
        let Some(latest) = keep.latest(now) else { return Ok(ExpiryBatch::default()) };
        let finished = Filter { open: Some(false), ..Filter::default() };
        let page = self.inner.store.list(&finished, after, limit).await?;
        let mut found = ExpiryBatch { examined: Vec::new(), next: page.next };
        for record in page.items {
            if record.created_at > latest {
                // Ids sort by their creation, so all later ones are younger.
                found.next = None;
                break;
            }
            if !keep.is_due(&record, now) {
                continue;
            }
            let may_go = if record.attributes.contains_key(LEFTOVERS) {
                Err(why::LEFTOVERS)
            } else if keep.held.contains(&record.tenant) {
                Err(why::HELD)
            } else {
                self.may_go(&record, &sealed).await?
            };
            let stays = match may_go {
                Ok(last) if erase => self.erase(&record, last, now).await?,
                Ok(_) => None,
                Err(why) => Some(why),
            };
            found.examined.push(ExpiredExecution { record, kept_reason: stays });
        }
        Ok(found)
    }

    /// Returns the last commit of its history, or why it is retained.
    async fn may_go(
        &self,
        record: &Record,
        sealed: &(impl Fn(Sequence, Sequence) -> bool + Send + Sync),
    ) -> Result<Result<Sequence, &'static str>, Error> {
        let Ok(fields) = serde_json::from_slice::<ParentField>(&record.body) else {
            return Ok(Err(why::UNREADABLE));
        };
        if let Some(parent) = fields.parent
            && self.inner.store.load(parent.execution).await?.is_some_and(|parent| parent.open)
        {
            return Ok(Err(why::PARENT));
        }
        if !self.inner.store.tasks(record.id).await?.is_empty() {
            return Ok(Err(why::WORK));
        }
        let journal = self.journal(record.id).await?;
        let ends = journal.first().zip(journal.last()).map(|(first, last)| (first.sequence, last.sequence));
        Ok(match ends {
            Some((first, last)) if sealed(first, last) => Ok(last),
            Some(_) => Err(why::UNSEALED),
            // The rest of an interrupted erasure.
            None => Ok(Sequence(0)),
        })
    }

    async fn erase(
        &self,
        record: &Record,
        upto: Sequence,
        now: Timestamp,
    ) -> Result<Option<&'static str>, Error> {
        let (reads, documents) = self.links_of(record.id).await?;
        let entries = self.journal(record.id).await?.len();
        let mut parts = entries.div_ceil(ERASE_LIMIT).max(1);
        while parts > 0 {
            parts = parts.saturating_sub(1);
            let erase = Erase { execution: record.id, expected: record.revision, upto, entries: ERASE_LIMIT };
            let mut commit = Commit { erase: Some(erase), ..Commit::default() };
            if parts == 0 {
                commit.reads.clone_from(&reads);
                commit.documents.clone_from(&documents);
                commit.journal = vec![erased_entry(record, now)];
            }
            match self.inner.store.commit(commit).await {
                Ok(receipt) if receipt.erased => {
                    self.inner.metrics.erased(&record.workflow);
                    tracing::info!(execution = %record.id, trace_id = %record.id.trace_id(), workflow = record.workflow, "erased after its retention");
                    return Ok(None);
                }
                Ok(_) => {}
                Err(store::Error::Conflict { .. }) => return Ok(Some(why::MOVED)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(why::MOVED))
    }

    /// Returns the links to an execution's children, which are removed with it.
    async fn links_of(&self, id: ExecutionId) -> Result<(Vec<Read>, Vec<Put>), Error> {
        let (mut reads, mut documents, mut after) = (Vec::new(), Vec::new(), None::<String>);
        let mut gone = |key: Key, version| {
            reads.push(Read { key: key.clone(), version: Some(version) });
            documents.push(Put { key, body: None });
        };
        loop {
            let prefix = CompositeKey::of(&[&id]).prefix();
            let page =
                self.inner.store.documents(collection::CHILDREN, &prefix, after.as_deref(), 1_000).await?;
            for found in page.items {
                gone(found.key, found.version);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if let Some(head) = self.inner.store.document(&Parent::head(id)).await? {
            gone(head.key, head.version);
        }
        Ok((reads, documents))
    }
}

/// Returns the entry that remains in the global history.
fn erased_entry(record: &Record, now: Timestamp) -> Entry {
    let detail = json!({
        "execution": record.id, "workflow": record.workflow, "tenant": record.tenant, "subject": record.subject,
        "outcome": record.reason, "ended_at": record.updated_at,
    });
    Entry {
        sequence: Sequence(0),
        execution: crate::AuditContext::no_execution(),
        at: now,
        actor: crate::documents::audit_context::actor().unwrap_or_else(|| "engine".into()),
        event: crate::AuditContext::ERASED.into(),
        from: String::new(),
        to: String::new(),
        detail: serde_json::to_vec(&detail).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
