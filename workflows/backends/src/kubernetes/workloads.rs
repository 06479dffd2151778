//! Workloads on this cluster: Kueue's `Workload` with the name or, if it does not exist, the pods with the name as a
//! label.
//!
//! Kueue stops and restarts its workloads by `spec.active`. Other pods are evicted with the eviction API, which
//! respects disruption budgets. Notices to the owner and the answers are annotations. See
//! `docs/backends/kubernetes.md`.

mod annotations;
mod conditional_write;
mod eviction;
mod gpus;
mod http_route;
mod observed;

use crate::kubernetes::{client::request::deadline, cluster::KubernetesCluster};
use async_trait::async_trait;
use engine::ActionError;
use std::collections::BTreeSet;
use workflows::platform::{
    CallMetadata, GpuSet, RunningWorkload, ScrubLevel, Scrubbed, WorkloadNotice, WorkloadRef, Workloads,
};

#[async_trait]
impl Workloads for KubernetesCluster {
    fn backend(&self) -> &'static str {
        "kubernetes"
    }

    async fn observe(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        let until = deadline(stamp);
        match self.known(of, until).await? {
            Some(known) => self.running(&known, until).await.map(Some),
            None => Ok(None),
        }
    }

    async fn wait_until_gone(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        let until = deadline(stamp);
        self.left_of(of, (self.patience(until), until)).await?;
        self.observe(of, stamp).await
    }

    async fn start(
        &self,
        of: &WorkloadRef,
        _gpus: &GpuSet,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let until = deadline(stamp);
        self.activated(of, stamp, until).await?;
        if service { self.weighed(of, 100, stamp, until).await } else { Ok(()) }
    }

    async fn set_notice(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let until = deadline(stamp);
        match *telling {
            WorkloadNotice::EndsAt(at) => self.warned(of, at, stamp, until).await,
            WorkloadNotice::GoesOn => self.reassured(of, stamp, until).await,
            WorkloadNotice::Weight(percent) => self.weighed(of, percent, stamp, until).await,
        }
    }

    async fn checkpoint(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError> {
        self.saved(of, stamp, deadline(stamp)).await
    }

    async fn evict(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.evicted(of, uid, stamp, deadline(stamp)).await
    }

    async fn force_remove(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.forced(of, uid, stamp, deadline(stamp)).await
    }

    async fn requeue(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.requeued(of, stamp, deadline(stamp)).await
    }

    async fn clients(
        &self,
        _cluster: &str,
        node: &str,
        _gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError> {
        self.askers(node, deadline(stamp)).await
    }

    async fn scrub(
        &self,
        cluster: &str,
        node: &str,
        _gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        _stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError> {
        gpus::scrubbed(cluster, node, level)
    }
}
