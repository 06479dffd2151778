//! The documents of a batch: the batch itself and one item for each of its executions.

use crate::{Attribution, Engine, Error, Event, model::documents::parse::parse};
use serde::{Deserialize, Serialize};
use store::{CompositeKey, ExecutionId, Key, Put, Sequence, Timestamp};

/// The most executions of one batch.
pub const BATCH_LIMIT: usize = 10_000;

/// The most commands per second.
pub const BATCH_RATE_LIMIT: u32 = 1_000;

pub(crate) const BATCHES: &str = "batches";

pub(crate) const ITEMS: &str = "batch-items";

/// The batches in progress, by their digest.
pub(super) const RUNNING: &str = "batches-running";

/// The command of a batch.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BatchVerb {
    /// Cancel it.
    Cancel,
    /// Pause it between two steps.
    Pause,
    /// Resume it.
    Resume,
    /// Retry it.
    Retry,
}

impl BatchVerb {
    /// Returns its name.
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

/// The same command for many executions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The id.
    pub id: String,
    /// The command.
    pub verb: BatchVerb,
    /// The filter that selects the executions. Each must still match when it is processed.
    pub filter: String,
    /// Only executions of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The digest of the previewed executions.
    pub digest: String,
    /// The requester.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The most commands per second.
    pub rate: u32,
    /// The number of executions.
    pub total: u32,
    /// The number of processed executions.
    pub next: u32,
    /// The number of accepted commands.
    pub done: u32,
    /// The number of refused commands.
    pub refused: u32,
    /// The number of skipped executions, which no longer match or no longer exist.
    pub skipped: u32,
    /// The time of the request. Ages in the filter count from here.
    pub created_at: Timestamp,
    /// The time of the last command or of the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The person who stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

impl Batch {
    /// Returns `running`, `done` or `stopped`.
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

/// One execution of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchItem {
    /// The execution.
    pub execution: ExecutionId,
    /// The result; `None` until it is processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BatchResult>,
    /// The reason of a refusal or a skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it was processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The results of a command.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BatchResult {
    /// It was accepted.
    Done,
    /// It was refused.
    Refused,
    /// It was not sent.
    Skipped,
}

pub(super) fn item_key(batch: &str, n: u32) -> Key {
    Key::new(ITEMS, CompositeKey::of(&[&batch, &format_args!("{n:06}")]))
}

/// Ends a batch.
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
