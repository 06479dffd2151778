//! The documents of a batch: the batch itself and one item for each of its executions.

use crate::{Attribution, Engine, Error, Event, model::documents::parse::parse};
use serde::{Deserialize, Serialize};
use store::{CompositeKey, ExecutionId, Key, Put, Sequence, Timestamp};

/// The most executions of one batch.
pub const BATCH_LIMIT: usize = 10_000;

/// The most commands a second.
pub const BATCH_RATE_LIMIT: u32 = 1_000;

pub(crate) const BATCHES: &str = "batches";

pub(crate) const ITEMS: &str = "batch-items";

/// The batches that are not over, by the digest of what they do.
pub(super) const RUNNING: &str = "batches-running";

/// What a batch does with each execution.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BatchVerb {
    /// Turn it back.
    Cancel,
    /// Stop it between two steps.
    Pause,
    /// Let it go on after a pause.
    Resume,
    /// Try now.
    Retry,
}

impl BatchVerb {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub(super) fn event(self, order: Attribution) -> Event {
        match self {
            Self::Cancel => Event::CancelRequested(order),
            Self::Pause => Event::PauseRequested(order),
            Self::Resume => Event::ResumeRequested(order),
            Self::Retry => Event::RetryRequested(order),
        }
    }
}

/// The same command to many executions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Names it.
    pub id: String,
    /// What is done with each.
    pub verb: BatchVerb,
    /// Which they were, and must be still when their turn comes.
    pub filter: String,
    /// Of this tenant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Names just the executions that were seen.
    pub digest: String,
    /// Who asked for it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Commands a second, at the most.
    pub rate: u32,
    /// How many executions.
    pub total: u32,
    /// How many have had their turn.
    pub next: u32,
    /// How many took the command.
    pub done: u32,
    /// How many did not take it.
    pub refused: u32,
    /// How many were passed over: no longer as they were asked for, or gone.
    pub skipped: u32,
    /// When it was asked for; spans of the filter count from here.
    pub created_at: Timestamp,
    /// When the last had its turn, or it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Who stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

impl Batch {
    /// `running`, `done` or `stopped`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (&self.stopped_by, self.ended_at) {
            (Some(_), _) => "stopped",
            (None, Some(_)) => "done",
            (None, None) => "running",
        }
    }

    pub(super) fn key(&self) -> Key {
        Key::new(BATCHES, &self.id)
    }

    pub(super) fn to_put(&self) -> Put {
        Put { key: self.key(), body: serde_json::to_vec(self).ok() }
    }
}

/// What became of one execution of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchItem {
    /// The execution.
    pub execution: ExecutionId,
    /// What became of it; `None` until its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BatchResult>,
    /// Why, where it did not take the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it had its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What became of a command.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BatchResult {
    /// It was taken.
    Done,
    /// It was not.
    Refused,
    /// It was not given.
    Skipped,
}

pub(super) fn item_key(batch: &str, n: u32) -> Key {
    Key::new(ITEMS, CompositeKey::of(&[&batch, &format_args!("{n:06}")]))
}

/// Ends a batch: it no longer runs.
pub(super) fn end(batch: &mut Batch, now: Timestamp) -> Vec<Put> {
    batch.ended_at = Some(now);
    tracing::info!(
        batch = batch.id,
        done = batch.done,
        refused = batch.refused,
        skipped = batch.skipped,
        "a batch has ended"
    );
    vec![Put { key: Key::new(RUNNING, &batch.digest), body: None }, batch.to_put()]
}

pub(super) async fn load<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    id: &str,
) -> Result<Option<(Batch, Sequence)>, Error> {
    let found = engine.inner.store.document(&Key::new(BATCHES, id)).await?;
    found.map(|found| Ok((parse(&found)?, found.version))).transpose()
}
