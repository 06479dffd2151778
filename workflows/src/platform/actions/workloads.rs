//! Actions on the workloads of a cluster: notify, drain, checkpoint, evict and observe them.
//!
//! As in Kueue, an eviction sets a workload inactive and its pods end; a start sets it active. A request is not an observation: GPUs count as free
//! only after no workload was observed on them. Actions on the GPUs are in `workload_gpus`.

use crate::platform::{
    CallMetadata, PlannedGpus, Platform, WorkloadNotice, WorkloadRef, at_cluster, call_metadata::look_again,
    codes,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Debug};

/// Notifies a borrower of the time at which its workload will be evicted.
///
/// Safe to run twice: it sets a fixed value. Its undo, [`WithdrawNotice`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NotifyBorrower {
    /// The workload.
    pub workload: WorkloadRef,
    /// The time, in milliseconds since 1970.
    pub at: u64,
}

impl Action for NotifyBorrower {
    const NAME: &'static str = "NotifyBorrower";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.workloads
            .set_notice(
                &self.workload,
                &WorkloadNotice::EndsAt(self.at),
                &CallMetadata::for_action(self, call),
            )
            .await
    }
}

/// Withdraws a notice: the workload continues, and must save its work again after a new notice. Safe to run twice. Tolerates that there was no
/// notice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WithdrawNotice {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for WithdrawNotice {
    const NAME: &'static str = "WithdrawNotice";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.workloads
            .set_notice(&self.workload, &WorkloadNotice::GoesOn, &CallMetadata::for_action(self, call))
            .await
    }
}

/// Stops the requests to a service. Safe to run twice. Its undo, [`RestoreService`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DrainService {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for DrainService {
    const NAME: &'static str = "DrainService";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.workloads
            .set_notice(&self.workload, &WorkloadNotice::Weight(0), &CallMetadata::for_action(self, call))
            .await
    }
}

/// Restores the requests to a service. Safe to run twice. Tolerates that the service was never drained.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreService {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for RestoreService {
    const NAME: &'static str = "RestoreService";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.workloads
            .set_notice(&self.workload, &WorkloadNotice::Weight(100), &CallMetadata::for_action(self, call))
            .await
    }
}

/// Requests a checkpoint of a workload and waits until it is complete.
///
/// Safe to run twice: a saved workload reports so until [`WithdrawNotice`] runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SaveWork {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for SaveWork {
    const NAME: &'static str = "SaveWork";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        if on.workloads.checkpoint(&self.workload, &CallMetadata::for_action(self, call)).await? {
            return Ok(());
        }
        Err(look_again(codes::CHECKPOINTING))
    }
}

/// Evicts a workload. Work since its last checkpoint is lost, so this has no undo. The workload may queue again.
///
/// Safe to run twice: it names the UID that was observed, and a missing workload is ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvictWorkload {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for EvictWorkload {
    const NAME: &'static str = "EvictWorkload";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        match on.workloads.observe(&self.workload, &stamp).await? {
            Some(seen) if seen.pods || seen.active => {
                on.workloads.evict(&self.workload, &seen.uid, &stamp).await
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Waits until a workload is gone. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AwaitGone {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for AwaitGone {
    const NAME: &'static str = "AwaitGone";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        match on.workloads.wait_until_gone(&self.workload, &CallMetadata::for_action(self, call)).await? {
            Some(seen) if seen.pods => Err(look_again(codes::WORKLOAD_TERMINATING)),
            Some(_) | None => Ok(()),
        }
    }
}

/// Removes a workload that does not end by itself from nodes that are fenced off.
///
/// Fails with `workload.node_alive` while one of its nodes still answers: deleting the record would hide a live process. Safe to run twice: it names
/// the UID that was observed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForceWorkload {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for ForceWorkload {
    const NAME: &'static str = "ForceWorkload";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        match on.workloads.observe(&self.workload, &stamp).await? {
            Some(seen) if seen.pods => on.workloads.force_remove(&self.workload, &seen.uid, &stamp).await,
            Some(_) | None => Ok(()),
        }
    }
}

/// Withdraws the notice of an evicted workload. The workload stays inactive until it is admitted again and [`StartWorkload`] runs. Safe to run twice.
/// A workload that the cluster does not know is ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequeueWorkload {
    /// The workload.
    pub workload: WorkloadRef,
}

impl Action for RequeueWorkload {
    const NAME: &'static str = "RequeueWorkload";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.workloads.requeue(&self.workload, &CallMetadata::for_action(self, call)).await
    }
}

/// Starts an admitted workload, on the planned GPUs if the cluster can be given a placement. Safe to run twice: a running workload is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartWorkload {
    /// The workload.
    pub workload: WorkloadRef,
    /// The planned GPUs.
    pub gpus: PlannedGpus,
    /// True if it serves requests.
    pub service: bool,
    /// The MIG profile of its slices, by node. It uses whole GPUs on all other nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub profiles: BTreeMap<String, String>,
}

impl Action for StartWorkload {
    const NAME: &'static str = "StartWorkload";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let gpus = self.gpus.as_set();
        if self.profiles.is_empty() {
            return on.workloads.start(&self.workload, gpus, self.service, &stamp).await;
        }
        on.workloads.start_on_slices(&self.workload, gpus, &self.profiles, self.service, &stamp).await
    }
}
