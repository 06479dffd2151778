//! Routes workload calls to the backend of each cluster.

use super::ByPlace;
use async_trait::async_trait;
use engine::ActionError;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use workflows::platform::{
    CallMetadata, GpuSet, RunningWorkload, ScrubLevel, Scrubbed, WorkloadNotice, WorkloadRef, Workloads,
    codes,
};

impl ByPlace<dyn Workloads> {
    /// Serves these clusters by their own backends and all others by `rest`.
    #[must_use]
    pub fn over(
        clusters: BTreeMap<String, Arc<dyn Workloads>>,
        rest: Arc<dyn Workloads>,
    ) -> Arc<dyn Workloads> {
        if clusters.is_empty() { rest } else { Arc::new(Self::new(clusters, rest, |one| one.backend())) }
    }
}

#[async_trait]
impl Workloads for ByPlace<dyn Workloads> {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn observe(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        self.at(&of.cluster).observe(of, stamp).await
    }

    async fn wait_until_gone(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        self.at(&of.cluster).wait_until_gone(of, stamp).await
    }

    async fn start(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(&of.cluster).start(of, gpus, service, stamp).await
    }

    async fn start_on_slices(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        profiles: &BTreeMap<String, String>,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(&of.cluster).start_on_slices(of, gpus, profiles, service, stamp).await
    }

    async fn set_notice(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(&of.cluster).set_notice(of, telling, stamp).await
    }

    async fn checkpoint(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError> {
        self.at(&of.cluster).checkpoint(of, stamp).await
    }

    async fn evict(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.at(&of.cluster).evict(of, uid, stamp).await
    }

    async fn force_remove(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(&of.cluster).force_remove(of, uid, stamp).await
    }

    async fn requeue(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.at(&of.cluster).requeue(of, stamp).await
    }

    async fn notify_ended(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.at(&of.cluster).notify_ended(of, stamp).await
    }

    async fn clients(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError> {
        self.at(cluster).clients(cluster, node, gpus, stamp).await
    }

    async fn scrub(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError> {
        self.at(cluster).scrub(cluster, node, gpus, level, stamp).await
    }
}

/// A real cluster without a backend for workloads. Every call fails, so that no work counts as done.
#[derive(Debug)]
pub struct OutOfReach;

fn out_of_reach(cluster: &str) -> ActionError {
    let why = format!(
        "no backend reaches the workloads of cluster {cluster:?}: end or start them by hand, and mark the step done"
    );
    ActionError::permanent(codes::UNSUPPORTED, why)
}

#[async_trait]
impl Workloads for OutOfReach {
    fn backend(&self) -> &'static str {
        "none"
    }

    async fn observe(
        &self,
        of: &WorkloadRef,
        _: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        Err(out_of_reach(&of.cluster))
    }

    async fn start(
        &self,
        of: &WorkloadRef,
        _: &GpuSet,
        _: bool,
        _: &CallMetadata,
    ) -> Result<(), ActionError> {
        Err(out_of_reach(&of.cluster))
    }

    async fn set_notice(
        &self,
        of: &WorkloadRef,
        _: &WorkloadNotice,
        _: &CallMetadata,
    ) -> Result<(), ActionError> {
        Err(out_of_reach(&of.cluster))
    }

    async fn checkpoint(&self, of: &WorkloadRef, _: &CallMetadata) -> Result<bool, ActionError> {
        Err(out_of_reach(&of.cluster))
    }

    async fn evict(&self, of: &WorkloadRef, _: &str, _: &CallMetadata) -> Result<(), ActionError> {
        Err(out_of_reach(&of.cluster))
    }

    async fn force_remove(&self, of: &WorkloadRef, _: &str, _: &CallMetadata) -> Result<(), ActionError> {
        Err(out_of_reach(&of.cluster))
    }

    async fn requeue(&self, of: &WorkloadRef, _: &CallMetadata) -> Result<(), ActionError> {
        Err(out_of_reach(&of.cluster))
    }

    async fn clients(
        &self,
        cluster: &str,
        _: &str,
        _: &BTreeSet<u16>,
        _: &CallMetadata,
    ) -> Result<Vec<String>, ActionError> {
        Err(out_of_reach(cluster))
    }

    async fn scrub(
        &self,
        cluster: &str,
        _: &str,
        _: &BTreeSet<u16>,
        _: ScrubLevel,
        _: &CallMetadata,
    ) -> Result<Scrubbed, ActionError> {
        Err(out_of_reach(cluster))
    }
}
