//! The engine: workflows registered on a store, and every way to start, ask, decide and repair.
//!
//! Whoever calls, one path changes an execution: load, [`transition`](crate::transition), commit, again on conflict.

use crate::{
    ActionError, Clock, Diagram, Edge, Error, Event, Flaw, Metrics, Request, Stopwatch, Undecided, View,
    Workflow, check,
    children::child_workflows::family,
    documents::audit_context,
    limits::Limits,
    model::{
        document_cache::Parsed,
        input::Given,
        view::{Decided, decide_knowing, still_stand},
    },
    runtime::{
        erased_workflow::{Machine, Next, Of, collection},
        relay::moved,
        version_routing::Elsewhere,
        wakeup::Due,
    },
    search::attributes::bounded,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};
use store::{Commit, Entry, ExecutionId, Key, Put, Read, Revision, Settle, Store, Task, Timestamp, Write};

/// How often a call decides again before it gives up on a contended execution.
pub(crate) const MOST_TRIES: usize = 64;

/// How an engine works. Start from `Options::default()`.
#[derive(Clone)]
pub struct Options {
    /// Names this process in leases and logs.
    pub holder: String,
    /// Tasks worked on at once. Default 64.
    pub concurrency: usize,
    /// How long a lease lasts unless renewed; renewed at a third. Default 30 s.
    pub lease: Duration,
    /// After this many deliveries without a result a task is poison. Default 8.
    pub poison_after: u32,
    /// How long a graceful stop waits for work in flight. Default 10 s.
    pub drain: Duration,
    /// How long an event for an execution that only another version can read waits for an engine of that version to take it.
    /// Default `None`: there is no other engine, and it is refused at once.
    pub relay: Option<Duration>,
    /// The commands that take effect only when a second person agrees, as [`command_name`](crate::command_name) names them.
    pub second_person: BTreeSet<String>,
    /// Sees every attempt and may bend it; for fault sweeps.
    pub tap: Option<Arc<dyn crate::Tap>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            holder: format!("engine-{}", std::process::id()),
            concurrency: 64,
            lease: Duration::from_secs(30),
            poison_after: 8,
            drain: Duration::from_secs(10),
            relay: None,
            second_person: BTreeSet::new(),
            tap: None,
        }
    }
}

/// A workflow that did not register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// Its name.
    pub workflow: &'static str,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workflow {} is unsound", self.workflow)?;
        self.flaws.iter().try_for_each(|flaw| write!(f, "; {flaw}"))
    }
}

impl std::error::Error for Unsound {}

/// What else a commit carries beside an execution's own.
#[derive(Debug, Default)]
pub(crate) struct Also {
    pub(crate) reads: Vec<Read>,
    pub(crate) documents: Vec<Put>,
    pub(crate) journal: Vec<Entry>,
    pub(crate) tasks: Vec<Task>,
}

impl Also {
    pub(crate) fn writes(&self, key: &Key) -> bool {
        self.documents.iter().any(|put| put.key == *key)
    }
}

/// A key under which something has been asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Remembered {
    execution: ExecutionId,
    fingerprint: String,
}

/// The answer to a request for an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The execution.
    pub id: ExecutionId,
    /// It had been asked for before, under the same key.
    pub replayed: bool,
}

/// The shell around the core. Cheap to clone; clones are the same engine.
pub struct Engine<P> {
    pub(crate) inner: Arc<Inner<P>>,
}

impl<P> Clone for Engine<P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// Told every way taken, once it is committed.
type Seen = dyn Fn(ExecutionId, &[Edge]) + Send + Sync;

pub(crate) struct Inner<P> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) platform: Arc<P>,
    pub(crate) machines: BTreeMap<&'static str, Arc<dyn Machine<P>>>,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) due: Arc<Due>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) parsed: Parsed,
    pub(crate) limits: Arc<Limits>,
    pub(crate) elsewhere: Arc<Elsewhere>,
}

impl<P> Clone for Inner<P> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            clock: self.clock.clone(),
            platform: self.platform.clone(),
            machines: self.machines.clone(),
            options: self.options.clone(),
            metrics: self.metrics.clone(),
            due: self.due.clone(),
            seen: self.seen.clone(),
            parsed: self.parsed.clone(),
            limits: self.limits.clone(),
            elsewhere: self.elsewhere.clone(),
        }
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// An engine without workflows.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, platform: impl Into<Arc<P>>) -> Self {
        let inner = Inner {
            store,
            clock,
            platform: platform.into(),
            machines: BTreeMap::new(),
            options: Options::default(),
            metrics: Metrics::default(),
            due: Arc::default(),
            seen: Arc::new(|_, _| {}),
            parsed: Parsed::default(),
            limits: Arc::default(),
            elsewhere: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Registers a workflow, and those that it starts.
    ///
    /// # Errors
    /// [`Unsound`]: the static check found that it could strand an execution.
    pub fn with<W: Workflow<Platform = P>>(self) -> Result<Self, Unsound> {
        let flaws = check::<W>();
        if !flaws.is_empty() {
            return Err(Unsound { workflow: W::NAME, flaws });
        }
        for kind in family::<W>() {
            let flaws = if self.inner.machines.contains_key(kind.workflow) { vec![] } else { (kind.check)() };
            if !flaws.is_empty() {
                return Err(Unsound { workflow: kind.workflow, flaws });
            }
        }
        Ok(self.with_checked::<W>())
    }

    /// Registers a workflow that has passed the static check before.
    pub(crate) fn with_checked<W: Workflow<Platform = P>>(self) -> Self {
        self.change(|inner| {
            for kind in family::<W>() {
                inner.machines.entry(kind.workflow).or_insert_with(kind.machine);
            }
            inner.machines.insert(W::NAME, Arc::new(Of::<W>::new()));
        })
    }

    /// Sets how it works.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        self.change(|inner| inner.options = options)
    }

    /// Counts into these metrics, from zero for each workflow that is registered by then.
    #[must_use]
    pub fn metrics(self, metrics: Metrics) -> Self {
        metrics.expect(self.inner.machines.keys().copied());
        self.change(|inner| inner.metrics = metrics)
    }

    /// Tells `seen` every way taken, once it is committed.
    #[must_use]
    pub fn watched(self, seen: impl Fn(ExecutionId, &[Edge]) + Send + Sync + 'static) -> Self {
        self.change(|inner| inner.seen = Arc::new(seen))
    }

    fn change(self, change: impl FnOnce(&mut Inner<P>)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// What its actions act on.
    #[must_use]
    pub fn platform(&self) -> &Arc<P> {
        &self.inner.platform
    }

    /// What it keeps everything in.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// What time it goes by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The registered workflows as pictures, by name.
    #[must_use]
    pub fn diagrams(&self) -> Vec<Diagram> {
        self.inner.machines.values().map(|machine| machine.diagram()).collect()
    }

    /// The names of the workflows that it runs.
    #[must_use]
    pub fn workflow_names(&self) -> Vec<String> {
        self.inner.machines.keys().map(ToString::to_string).collect()
    }

    pub(crate) fn machine(&self, workflow: &str, schema: u32) -> Result<&Arc<dyn Machine<P>>, Error> {
        let missing = || Error::NoWorker { workflow: workflow.into(), schema };
        self.inner.machines.get(workflow).ok_or_else(missing)
    }

    /// Starts an execution of `data`.
    ///
    /// # Errors
    /// [`store::Error::Busy`] when its guard is held, [`store::Error::Conflict`] when a read of the request no longer
    /// holds, [`Error::KeyReused`] when its key was used for a different request.
    pub async fn start<W: Workflow<Platform = P>>(
        &self,
        data: W,
        request: Request,
    ) -> Result<Started, Error> {
        let data = serde_json::to_value(&data)
            .map_err(|e| Error::Undecided(ActionError::permanent("engine.encode", e)))?;
        self.begin(W::NAME, W::SCHEMA, data, request, None, Also::default()).await
    }

    /// Starts an execution, and settles what asked for it with the same commit.
    pub(crate) async fn begin(
        &self,
        workflow: &str,
        schema: u32,
        data: Value,
        request: Request,
        settle: Option<Settle>,
        mut also: Also,
    ) -> Result<Started, Error> {
        let now = self.inner.clock.now();
        let id = request.id.unwrap_or_else(|| ExecutionId::new(now, self.inner.clock.entropy()));
        let mut next =
            self.machine(workflow, schema)?.open(id, Given { schema, data }, &request.by, now, None)?;
        let written = request.attributes.into_iter();
        next.record.attributes.extend(
            written.filter_map(|(name, values)| Some((name, bounded(values.into_iter().collect())?))),
        );
        also.reads.extend(request.reads);
        also.documents.extend(request.documents);
        if let Some((key, fingerprint)) = &request.once {
            let key = Key::new(collection::REQUESTS, key);
            if let Some(started) = self.remembered(&key, fingerprint).await? {
                return Ok(started);
            }
            let body = serde_json::to_vec(&Remembered { execution: id, fingerprint: fingerprint.clone() });
            also.reads.push(Read { key: key.clone(), version: None });
            also.documents.push(Put { key, body: Some(body.unwrap_or_default()) });
        }
        match self.commit(None, next, settle, also).await {
            Err(Error::Store(store::Error::Conflict { what })) => {
                // A twin of this very request may have come first.
                let Some((key, fingerprint)) = &request.once else {
                    return Err(store::Error::Conflict { what }.into());
                };
                let twin = self.remembered(&Key::new(collection::REQUESTS, key), fingerprint).await?;
                twin.ok_or_else(|| store::Error::Conflict { what }.into())
            }
            other => {
                other?;
                self.inner.metrics.started(workflow);
                tracing::info!(execution = %id, trace_id = %id.trace_id(), workflow, by = request.by, "started");
                Ok(Started { id, replayed: false })
            }
        }
    }

    async fn remembered(&self, key: &Key, fingerprint: &str) -> Result<Option<Started>, Error> {
        let Some(found) = self.inner.store.document(key).await? else { return Ok(None) };
        let corrupt =
            |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
        let found: Remembered = serde_json::from_slice(&found.body).map_err(corrupt)?;
        if found.fingerprint != fingerprint {
            return Err(Error::KeyReused { key: key.id.clone(), execution: found.execution });
        }
        Ok(Some(Started { id: found.execution, replayed: true }))
    }

    /// Lets an execution take an event.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason, [`Error::NotFound`], [`Error::NoWorker`], or the store's.
    pub async fn deliver(&self, id: ExecutionId, event: Event) -> Result<Revision, Error> {
        self.check_second(&event)?;
        let told = self.deliver_settling(id, event.clone(), None).await;
        self.or_relayed(id, (event, None), told).await
    }

    /// Lets an execution take an event if it is still at `revision`.
    ///
    /// # Errors
    /// As [`Engine::deliver`]; [`store::Error::Conflict`] when it has moved on.
    pub async fn deliver_at(
        &self,
        id: ExecutionId,
        event: Event,
        revision: Revision,
    ) -> Result<Revision, Error> {
        self.check_second(&event)?;
        let told = self.deliver_bound(id, event.clone(), revision).await;
        self.or_relayed(id, (event, Some(revision)), told).await
    }

    async fn deliver_bound(&self, id: ExecutionId, event: Event, bound: Revision) -> Result<Revision, Error> {
        let record = self.record(id).await?;
        if record.revision != bound {
            return Err(store::Error::Conflict { what: moved(&record, bound) }.into());
        }
        let next =
            self.machine(&record.workflow, record.schema)?.advance(&record, event, self.inner.clock.now())?;
        self.commit(Some(bound), next, None, Also::default()).await
    }

    pub(crate) async fn deliver_settling(
        &self,
        id: ExecutionId,
        event: Event,
        settle: Option<Settle>,
    ) -> Result<Revision, Error> {
        for _ in 0..MOST_TRIES {
            let record = self.record(id).await?;
            let machine = self.machine(&record.workflow, record.schema)?;
            let next = machine.advance(&record, event.clone(), self.inner.clock.now())?;
            match self.commit(Some(record.revision), next, settle, Also::default()).await {
                Err(Error::Store(store::Error::Conflict { .. })) => self.inner.metrics.conflict(),
                other => return other,
            }
        }
        Err(Error::Contended(id))
    }

    pub(crate) async fn commit(
        &self,
        expected: Option<Revision>,
        next: Next,
        settle: Option<Settle>,
        mut also: Also,
    ) -> Result<Revision, Error> {
        self.settle_kin(&next, &mut also).await?;
        let id = next.record.id;
        let workflow = next.record.workflow.clone();
        let retired = next.retire.clone();
        let commit = Commit {
            record: Some(Write { record: next.record, expected }),
            reads: also.reads,
            documents: also.documents.into_iter().chain(next.documents).collect(),
            journal: next.journal.into_iter().chain(also.journal).collect(),
            schedule: next.schedule.into_iter().chain(also.tasks).collect(),
            retire: next.retire,
            settle,
            ..Commit::default()
        };
        let watch = Stopwatch::start();
        // Whoever settles a task looks by itself for what to do next.
        let now = self.inner.clock.now();
        let told = |due: &Timestamp| settle.is_none() || *due > now;
        let scheduled = commit.schedule.iter().map(|task| task.due).filter(told).min();
        let receipt = self.inner.store.commit(commit).await?;
        self.inner.metrics.committed(watch.elapsed());
        self.inner.due.scheduled(scheduled);
        (self.inner.seen)(id, &next.edges);
        if let Some(outcome) = next.finished.map(Into::<&str>::into) {
            self.inner.metrics.ended(&workflow, outcome);
            self.inner.metrics.promised(&workflow, next.kept);
            tracing::info!(execution = %id, trace_id = %id.trace_id(), workflow, outcome, "finished");
        }
        if let Some(reason) = next.parked {
            self.inner.metrics.parked(reason);
            tracing::warn!(execution = %id, trace_id = %id.trace_id(), workflow, reason, "parked: an operator has to look");
        }
        if let Some(ruling) = next.ruled {
            self.inner.metrics.ruled(&workflow, ruling);
        }
        if let Some(review) = next.broken {
            self.inner.metrics.glass_broken(&workflow);
            let (approval, by, reason) = (&review.approval, &review.by, &review.reason);
            tracing::warn!(execution = %id, trace_id = %id.trace_id(), workflow, approval, by, reason, "the glass was broken: somebody has to review it");
        }
        self.unwanted(&retired).await;
        Ok(receipt.revision.unwrap_or_default())
    }

    /// Decides on documents as a ledger action would, again whenever somebody else's commit comes between; commits what it
    /// writes, and what it asks of executions, if `keep` and what it is bound to is so ([`only_if`](crate::only_if())), else shows
    /// what it would answer.
    ///
    /// # Errors
    /// [`Error::Undecided`] when the decision is no; [`store::Error::Conflict`] when others keep writing.
    pub async fn ledger<T>(
        &self,
        keep: bool,
        mut attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, Error> {
        let conditions = if keep { crate::documents::preconditions::in_force() } else { Vec::new() };
        let mut attempt = |view: &mut View| {
            conditions.iter().try_for_each(|condition| condition.holds(view))?;
            attempt(view)
        };
        for _ in 0..MOST_TRIES {
            let store = &*self.inner.store;
            let now = self.inner.clock.now();
            let Decided { result, reads, puts, tasks } =
                decide_knowing(&self.inner.parsed, store, now, &mut attempt).await?;
            if !keep || (puts.is_empty() && tasks.is_empty()) {
                if still_stand(store, &reads).await? {
                    return result.map_err(Error::Undecided);
                }
                continue;
            }
            let journal = audit_context::entry(&puts, tasks.len(), now).into_iter().collect();
            let commit = Commit { reads, documents: puts, schedule: tasks, journal, ..Commit::default() };
            let watch = Stopwatch::start();
            match store.commit(commit).await {
                Ok(_) => {
                    self.inner.metrics.committed(watch.elapsed());
                    self.inner.due.ring();
                    return result.map_err(Error::Undecided);
                }
                Err(store::Error::Conflict { .. }) => self.inner.metrics.conflict(),
                Err(error) => return Err(error.into()),
            }
        }
        Err(store::Error::Conflict { what: "the ledger".into() }.into())
    }
}
