//! The engine: workflows registered on a store, and shared state.
//!
//! The other folders add its operations. Invariant: clones are the same engine.

use super::{
    clock_guard::ClockGuard, decisions::queues::Queues, version_routing::VersionRouting, wakeup::Wakeup,
};
use crate::{
    Clock, Diagram, Edge, Error, Metrics, Options, Separation,
    limits::state::LimitState,
    model::{documents::document_cache::DocumentCache, erased_workflow::ErasedWorkflow},
};
use std::{collections::BTreeMap, fmt, sync::Arc};
use store::{ExecutionId, Store};

/// The shell around the core. Cheap to clone; clones are the same engine.
pub struct Engine<P> {
    pub(crate) inner: Arc<Shared<P>>,
}

impl<P> Clone for Engine<P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// Receives every edge after its commit.
type EdgeObserver = dyn Fn(ExecutionId, &[Edge]) + Send + Sync;

pub(crate) struct Shared<P> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) platform: Arc<P>,
    pub(crate) workflows: BTreeMap<&'static str, Arc<dyn ErasedWorkflow<P>>>,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) edge_observer: Arc<EdgeObserver>,
    pub(crate) document_cache: DocumentCache,
    pub(crate) queues: Queues,
    pub(crate) limits: Arc<LimitState>,
    pub(crate) version_routing: Arc<VersionRouting>,
    pub(crate) clock_guard: Arc<ClockGuard>,
}

impl<P> Clone for Shared<P> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            clock: self.clock.clone(),
            platform: self.platform.clone(),
            workflows: self.workflows.clone(),
            options: self.options.clone(),
            metrics: self.metrics.clone(),
            wakeup: self.wakeup.clone(),
            edge_observer: self.edge_observer.clone(),
            document_cache: self.document_cache.clone(),
            queues: self.queues.clone(),
            limits: self.limits.clone(),
            version_routing: self.version_routing.clone(),
            clock_guard: self.clock_guard.clone(),
        }
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Creates an engine without workflows. Bodies that are too large for a row of `store` are stored as
    /// [pages](store::paged).
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, platform: impl Into<Arc<P>>) -> Self {
        let inner = Shared {
            store: store::paged::paged(store),
            clock,
            platform: platform.into(),
            workflows: BTreeMap::new(),
            options: Options::default(),
            metrics: Metrics::default(),
            wakeup: Arc::default(),
            edge_observer: Arc::new(|_, _| {}),
            document_cache: DocumentCache::default(),
            queues: Queues::default(),
            limits: Arc::default(),
            version_routing: Arc::default(),
            clock_guard: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        self.change(|inner| inner.options = options)
    }

    /// Sets the metrics. The workflows registered so far start at zero.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        metrics.expect(self.inner.workflows.keys().copied());
        self.change(|inner| inner.metrics = metrics)
    }

    /// Sets an observer of every edge, called after the commit.
    #[must_use]
    pub fn with_edge_observer(self, observer: impl Fn(ExecutionId, &[Edge]) + Send + Sync + 'static) -> Self {
        self.change(|inner| inner.edge_observer = Arc::new(observer))
    }

    pub(super) fn change(self, change: impl FnOnce(&mut Shared<P>)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// Returns the platform that its actions run on.
    #[must_use]
    pub fn platform(&self) -> &Arc<P> {
        &self.inner.platform
    }

    /// Returns its store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns its clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Returns whether votes must come from separate people.
    #[must_use]
    pub fn separation(&self) -> Separation {
        self.inner.options.separation
    }

    /// Returns the diagrams of the registered workflows, by name.
    #[must_use]
    pub fn diagrams(&self) -> Vec<Diagram> {
        self.inner.workflows.values().map(|machine| machine.diagram()).collect()
    }

    /// Returns the names of its workflows.
    #[must_use]
    pub fn workflow_names(&self) -> Vec<String> {
        self.inner.workflows.keys().map(ToString::to_string).collect()
    }

    pub(crate) fn machine(&self, workflow: &str, schema: u32) -> Result<&Arc<dyn ErasedWorkflow<P>>, Error> {
        let missing = || Error::NoWorker { workflow: workflow.into(), schema };
        self.inner.workflows.get(workflow).ok_or_else(missing)
    }
}

impl<P> fmt::Debug for Engine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("holder", &self.inner.options.holder).finish_non_exhaustive()
    }
}
