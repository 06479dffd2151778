//! Previews batches, and begins a previewed one.
//!
//! Invariant: a batch begins only with the previewed executions.

use super::record::{RUNNING, item_key};
use crate::{
    Attribution, BATCH_LIMIT, BATCH_RATE_LIMIT, Batch, BatchItem, BatchVerb, Engine, Error, FilterError,
    search::parse_knowing,
};
use sha2::{Digest as _, Sha256};
use std::fmt;
use store::{Commit, ExecutionId, Key, Put, Query, Read, Record, Timestamp};

/// The default limit of executions in one batch.
pub const BATCH_CAP: usize = 1_000;

/// The default commands per second.
pub const BATCH_RATE: u32 = 50;

/// The most executions shown in a preview.
const PREVIEWED: usize = 10;

/// The page size of reads.
const PAGE: usize = 500;

/// The definition of a batch.
#[derive(Clone, Debug)]
pub struct BatchRequest {
    /// The command.
    pub verb: BatchVerb,
    /// The filter, in the language of [`parse_filter`](crate::parse_filter). Not empty.
    pub filter: String,
    /// Only executions of this tenant.
    pub tenant: Option<String>,
    /// A larger batch is refused.
    pub cap: usize,
}

/// The preview of a batch.
#[derive(Clone, Debug)]
pub struct BatchPreview {
    /// The digest of the command and of these executions.
    pub digest: String,
    /// The number of executions.
    pub count: usize,
    /// The first executions, each with the reason if it would refuse the command now.
    pub first: Vec<(Record, Option<String>)>,
    /// The number of executions that would refuse it now.
    pub rejecting: usize,
    ids: Vec<ExecutionId>,
}

/// Why a batch cannot begin.
#[derive(Debug)]
pub enum BatchError {
    /// The filter cannot be read.
    InvalidFilter(FilterError),
    /// The filter is empty, which would match every execution.
    EmptyFilter,
    /// More executions match than the limit allows.
    TooMany {
        /// The limit.
        cap: usize,
    },
    /// No execution matches.
    NoExecutions,
    /// The executions differ from the preview.
    Changed(Box<BatchPreview>),
    /// Another error of the engine.
    Engine(Error),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidFilter(misread) => misread.fmt(f),
            Self::EmptyFilter => {
                write!(f, "filter: an empty filter would match every execution; add a condition")
            }
            Self::TooMany { cap } => write!(
                f,
                "more than {cap} executions match; narrow the filter, or raise cap (at most {BATCH_LIMIT})"
            ),
            Self::NoExecutions => write!(f, "no execution matches the filter"),
            Self::Changed(now) => write!(
                f,
                "the {} matching executions differ from the preview; preview again and send the new digest",
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

/// Returns the query of `ask`, limited to its tenant.
pub(super) fn batch_query(
    filter: &str,
    tenant: Option<&str>,
    (at, workflows): (Timestamp, Vec<String>),
) -> Result<Query, FilterError> {
    let query = parse_knowing(filter, at, workflows)?;
    Ok(tenant.map_or(Query::All, |tenant| Query::is("tenant", tenant)).and(query))
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the executions that a batch would change, with their refusals of the command. Changes nothing.
    ///
    /// # Errors
    /// Returns a [`BatchError`], but never [`BatchError::Changed`].
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

    /// Returns why the execution would refuse the command now.
    fn would_refuse(&self, record: &Record, verb: BatchVerb, at: Timestamp) -> Option<String> {
        let order = Attribution { by: String::new(), reason: String::new() };
        let machine = self.machine(&record.workflow, record.schema);
        let advanced = machine.and_then(|machine| machine.advance(record, verb.event(order), at));
        advanced.err().map(|error| error.to_string())
    }

    /// Begins a batch for the executions of `digest`. A repeated request returns the batch in progress.
    ///
    /// # Errors
    /// Returns a [`BatchError`].
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

/// Returns the digest of the command and these executions.
fn digest(ask: &BatchRequest, ids: &[ExecutionId]) -> String {
    let mut hash = Sha256::new();
    for part in [ask.verb.name(), ask.filter.trim(), ask.tenant.as_deref().unwrap_or_default()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    ids.iter().for_each(|id| hash.update(id.as_bytes()));
    format!("sha256:{}", store::hex::encode(&hash.finalize()))
}
