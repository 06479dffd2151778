//! Workloads on the GPUs of a cluster: told, drained, saved, evicted, and observed to be gone.
//!
//! Kueue-shaped: evicting sets a workload inactive, and its pods go; starting sets it active. What was asked for
//! is not what has happened: GPUs count as free only once nothing was seen on them. Their GPUs are in `workload_gpus`.

use crate::platform::{
    CallMetadata, PlannedGpus, Platform, WorkloadNotice, WorkloadRef, at_cluster, call_metadata::look_again,
    codes,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Debug};

/// Tells a borrower that its workload will be evicted, and when.
///
/// Safe to run twice: it sets a mark. Its undo, [`WithdrawNotice`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NotifyBorrower {
    /// Which workload.
    pub workload: WorkloadRef,
    /// When, in milliseconds since 1970.
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

/// Tells a borrower that its workload goes on after all, so that it saves its work anew when it is asked again. Safe to run
/// twice; tolerates that nobody was told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WithdrawNotice {
    /// Which workload.
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

/// Sends a service no more requests. Safe to run twice. Its undo, [`RestoreService`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DrainService {
    /// Which workload.
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

/// Sends a service its requests again. Safe to run twice; tolerates that it was never drained.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreService {
    /// Which workload.
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

/// Asks a workload to save its work, and waits until it has.
///
/// Safe to run twice: one that has saved says so again, until [`WithdrawNotice`] says that it goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SaveWork {
    /// Which workload.
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

/// Evicts a workload. What it did since it last saved is lost, so this is not undone; it may queue again.
///
/// Safe to run twice: it names the very workload that was seen, and one that is gone is left alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvictWorkload {
    /// Which workload.
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

/// Waits until nothing of a workload is left. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AwaitGone {
    /// Which workload.
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

/// Removes what is left of a workload that does not end by itself, from nodes that are fenced off.
///
/// Refused with `workload.node_alive` while one of its nodes still answers: removing the record of a process that
/// lives would hide it. Safe to run twice: it names the very workload that was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForceWorkload {
    /// Which workload.
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

/// Withdraws from an evicted workload what its owner was told. It stays held until the books admit it again, and [`StartWorkload`] runs.
/// Safe to run twice; one that the cluster does not know is left alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequeueWorkload {
    /// Which workload.
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

/// Lets an admitted workload run, on the planned GPUs where the cluster can be told which. Safe to run twice: one that runs is left as it
/// is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartWorkload {
    /// Which workload.
    pub workload: WorkloadRef,
    /// Where the books plan it.
    pub gpus: PlannedGpus,
    /// Whether it serves requests.
    pub service: bool,
    /// The profile of the slices that it has on a node, by node; whole GPUs on all others.
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
