//! Previews a batch, and begins the one that was seen.
//!
//! Invariant: a batch begins only with the executions of the digest that was previewed.

use super::record::{RUNNING, item_key};
use crate::{
    Attribution, BATCH_LIMIT, BATCH_RATE_LIMIT, Batch, BatchItem, BatchVerb, Engine, Error, FilterError,
    search::parse_knowing,
};
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use store::{Commit, ExecutionId, Key, Put, Query, Read, Record, Timestamp};

/// The most executions of one batch unless asked otherwise.
pub const BATCH_CAP: usize = 1_000;

/// Commands a second unless asked otherwise.
pub const BATCH_RATE: u32 = 50;

/// Shown of what a batch would change.
const PREVIEWED: usize = 10;

/// Records asked for at once.
const PAGE: usize = 500;

/// What is asked of many executions.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    /// What to do with each.
    pub verb: BatchVerb,
    /// With which, in the language of [`parse_filter`](crate::parse_filter). Not empty.
    pub filter: String,
    /// Of this tenant alone.
    pub tenant: Option<String>,
    /// More than so many are refused.
    pub cap: usize,
}

/// What a batch would change.
#[derive(Clone, Debug)]
pub struct BatchPreview {
    /// Names just these executions and what would be done with them.
    pub digest: String,
    /// How many.
    pub count: usize,
    /// The first of them, each with why it would not take the command, if it would not as it stands.
    pub first: Vec<(Record, Option<String>)>,
    /// How many would not take it as they stand.
    pub rejecting: usize,
    ids: Vec<ExecutionId>,
}

/// Why a batch was not begun.
#[derive(Debug)]
pub enum BatchError {
    /// The filter cannot be read.
    InvalidFilter(FilterError),
    /// The filter is empty: everything is never meant.
    EmptyFilter,
    /// More executions than the cap.
    TooMany {
        /// The cap.
        cap: usize,
    },
    /// No execution.
    NoExecutions,
    /// The executions are not those that were seen.
    Changed(Box<BatchPreview>),
    /// The engine's.
    Engine(Error),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidFilter(misread) => misread.fmt(f),
            Self::EmptyFilter => {
                write!(f, "filter: an empty one takes in everything; say which executions are meant")
            }
            Self::TooMany { cap } => write!(
                f,
                "more than {cap} executions match; narrow the filter, or set cap to as many as are meant (at most {BATCH_LIMIT})"
            ),
            Self::NoExecutions => write!(f, "no execution matches the filter"),
            Self::Changed(now) => write!(
                f,
                "the {} executions that match are not those that were seen; look again and send the digest of what you see",
                now.count
            ),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BatchError {}

impl<E: Into<Error>> From<E> for BatchError {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

/// What `ask` wants, of its tenant alone.
pub(super) fn batch_query(
    filter: &str,
    tenant: Option<&str>,
    (at, workflows): (Timestamp, Vec<String>),
) -> Result<Query, FilterError> {
    let query = parse_knowing(filter, at, workflows)?;
    Ok(tenant.map_or(Query::All, |tenant| Query::is("tenant", tenant)).and(query))
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Which executions a batch would change, and which of them would not take the command. Changes nothing.
    ///
    /// # Errors
    /// [`BatchError`]; never [`BatchError::Changed`].
    pub async fn preview_batch(&self, ask: &BatchRequest) -> Result<BatchPreview, BatchError> {
        if ask.filter.trim().is_empty() {
            return Err(BatchError::EmptyFilter);
        }
        let now = self.inner.clock.now();
        let query = batch_query(&ask.filter, ask.tenant.as_deref(), (now, self.workflow_names()))
            .map_err(BatchError::InvalidFilter)?;
        let cap = ask.cap.min(BATCH_LIMIT);
        let (mut ids, mut first, mut refusing, mut after) = (Vec::new(), Vec::new(), 0, None);
        loop {
            let found = self.search(&query, after, PAGE).await?;
            for record in found.items {
                if ids.len() == cap {
                    return Err(BatchError::TooMany { cap });
                }
                let refused = self.would_refuse(&record, ask.verb, now);
                refusing += usize::from(refused.is_some());
                ids.push(record.id);
                if first.len() < PREVIEWED {
                    first.push((record, refused));
                }
            }
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        if ids.is_empty() {
            return Err(BatchError::NoExecutions);
        }
        Ok(BatchPreview { digest: digest(ask, &ids), count: ids.len(), first, rejecting: refusing, ids })
    }

    /// Why the execution would not take the command as it stands.
    fn would_refuse(&self, record: &Record, verb: BatchVerb, at: Timestamp) -> Option<String> {
        let order = Attribution { by: String::new(), reason: String::new() };
        let machine = self.machine(&record.workflow, record.schema);
        let advanced = machine.and_then(|machine| machine.advance(record, verb.event(order), at));
        advanced.err().map(|error| error.to_string())
    }

    /// Begins a batch on the executions that `digest` names; asked for again while it runs, it is the same one.
    ///
    /// # Errors
    /// [`BatchError`].
    pub async fn begin_batch(
        &self,
        ask: &BatchRequest,
        digest: &str,
        by: &str,
        reason: &str,
        rate: u32,
    ) -> Result<Batch, BatchError> {
        let running = Key::new(RUNNING, digest);
        if let Some(found) = self.inner.store.document(&running).await? {
            let id = String::from_utf8_lossy(&found.body).into_owned();
            let batch = self.batch(&id).await?.filter(|batch| batch.tenant == ask.tenant && batch.by == by);
            return batch.ok_or_else(|| store::Error::Conflict { what: format!("batch {id}") }.into());
        }
        let preview = self.preview_batch(ask).await?;
        if preview.digest != digest {
            return Err(BatchError::Changed(Box::new(preview)));
        }
        let now = self.inner.clock.now();
        let batch = Batch {
            id: ExecutionId::new(now, self.inner.clock.entropy()).to_string(),
            verb: ask.verb,
            filter: ask.filter.clone(),
            tenant: ask.tenant.clone(),
            digest: digest.to_owned(),
            by: by.to_owned(),
            reason: reason.to_owned(),
            rate: rate.clamp(1, BATCH_RATE_LIMIT),
            total: u32::try_from(preview.count).unwrap_or(u32::MAX),
            next: 0,
            done: 0,
            refused: 0,
            skipped: 0,
            created_at: now,
            ended_at: None,
            stopped_by: None,
        };
        let items = (0u32..).zip(&preview.ids).map(|(n, execution)| {
            let item = BatchItem { execution: *execution, result: None, why: None, at: None };
            Put { key: item_key(&batch.id, n), body: serde_json::to_vec(&item).ok() }
        });
        let mark = Put { key: running.clone(), body: Some(batch.id.clone().into_bytes()) };
        let commit = Commit {
            reads: vec![Read { key: running, version: None }],
            documents: items.chain([mark, batch.to_put()]).collect(),
            ..Commit::default()
        };
        self.inner.store.commit(commit).await?;
        tracing::info!(
            batch = batch.id,
            verb = batch.verb.name(),
            total = batch.total,
            by,
            "a batch has begun"
        );
        Ok(batch)
    }
}

/// Names what is asked for and just these executions.
fn digest(ask: &BatchRequest, ids: &[ExecutionId]) -> String {
    let mut hash = Sha256::new();
    for part in [ask.verb.name(), ask.filter.trim(), ask.tenant.as_deref().unwrap_or_default()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    ids.iter().for_each(|id| hash.update(id.as_bytes()));
    hash.finalize().iter().fold(String::from("sha256:"), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
