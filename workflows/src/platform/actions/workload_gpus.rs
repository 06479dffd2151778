//! Actions on the GPUs of a workload: find them, list the processes that use them, and clear their memory.
//!
//! Invariant: only observed GPUs are inspected and cleared. The one exception is an eviction that an earlier version took past its point of no
//! return: it uses the GPUs that were approved.

use crate::platform::{
    CallMetadata, GpuSet, ObservedGpus, Platform, ScrubLevel, Scrubbed, WorkloadRef, at_cluster, codes,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt::Debug};

/// Reads from the cluster the GPUs on which a workload runs. Returns none if the cluster reports no placement and no earlier observation exists. Safe
/// to run twice: it changes nothing.
///
/// Fails with `gpu.unobserved` if the cluster names a node without the GPUs on it, or runs the workload and names no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserveGpus {
    /// The workload.
    pub workload: WorkloadRef,
    /// The GPUs of earlier observations.
    pub before: ObservedGpus,
    /// The GPUs in the latest facts of the cluster. They may name GPUs on a node for which the scheduler reports only the node's name.
    pub facts: ObservedGpus,
}

impl Action for ObserveGpus {
    const NAME: &'static str = "ObserveGpus";
    type Platform = Platform;
    type Output = ObservedGpus;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.workload.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<ObservedGpus, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let seen = on.workloads.observe(&self.workload, &stamp).await?.filter(|seen| seen.pods);
        let runs = seen.is_some();
        let now = seen.map(|seen| seen.gpus).unwrap_or_default();
        let all = self.before.clone().and(&now.completed_by(&self.before).completed_by(&self.facts));
        // For a workload that has ended, the last known place counts.
        let all = if all.is_empty() { self.facts.clone() } else { all };
        let name = self.workload.full_name();
        let why = match all.unknown_on() {
            Some(node) => format!("{name} runs on node {node}, but its GPUs are unknown"),
            None if runs && all.is_empty() => {
                format!("{name} is admitted, but its cluster does not report its node")
            }
            None => return Ok(all),
        };
        Err(ActionError::permanent(codes::GPUS_UNOBSERVED, why))
    }
}

/// Lists the processes that have some GPUs open. Safe to run twice: it changes nothing. Fails with `gpu.unobserved` if the GPUs are unknown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListGpuClients {
    /// The cluster's name.
    pub cluster: String,
    /// The observed GPUs. `None` if no observer was called.
    pub gpus: Option<ObservedGpus>,
    /// GPUs in the plan of an earlier version. Used only if no observer was called.
    #[serde(default, skip_serializing_if = "GpuSet::is_empty")]
    pub earlier: GpuSet,
}

impl Action for ListGpuClients {
    const NAME: &'static str = "ListGpuClients";
    type Platform = Platform;
    /// The processes that have the GPUs open.
    type Output = Vec<String>;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Vec<String>, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let known = self.gpus.as_ref().filter(|gpus| gpus.unknown_on().is_none());
        let looked_at: Vec<(&String, &BTreeSet<u16>)> = match known {
            Some(observed) => observed.iter().collect(),
            None => self.earlier.iter().collect(),
        };
        if known.is_none() && looked_at.is_empty() {
            let why = "the GPUs to check are unknown, and a GPU without a check does not count as free";
            return Err(ActionError::permanent(codes::GPUS_UNOBSERVED, why));
        };
        let mut open = BTreeSet::new();
        for (node, gpus) in looked_at {
            open.extend(on.workloads.clients(&self.cluster, node, gpus, &stamp.for_part(node)).await?);
        }
        Ok(open.into_iter().collect())
    }
}

/// Clears the memory of a node's GPUs before another tenant uses them, and records the result.
///
/// Safe to run twice: the target answers the same for the same key, and clearing again does no harm. Fails with `gpu.scrub_failed` if less than 95 %
/// of the memory was covered, or if the level was lower than requested.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScrubGpus {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The indexes of the GPUs.
    pub gpus: BTreeSet<u16>,
    /// The level of the scrub.
    pub level: ScrubLevel,
}

impl Action for ScrubGpus {
    const NAME: &'static str = "ScrubGpus";
    type Platform = Platform;
    type Output = Scrubbed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Scrubbed, ActionError> {
        if self.level == ScrubLevel::None {
            // Without a level to apply, no call is made: a target that cannot scrub would reject it.
            return Ok(Scrubbed::default());
        }
        if self.gpus.is_empty() {
            let why = format!("{}: no GPU is named, so no GPU is scrubbed", self.node);
            return Err(ActionError::permanent(codes::GPUS_UNOBSERVED, why));
        }
        let stamp = CallMetadata::for_action(self, call);
        let done = on.workloads.scrub(&self.cluster, &self.node, &self.gpus, self.level, &stamp).await?;
        let enough = match self.level {
            ScrubLevel::None | ScrubLevel::Driver => true,
            ScrubLevel::Verified | ScrubLevel::Recreate | ScrubLevel::Reset => {
                done.total_bytes > 0 && done.covered_bytes / 95 >= done.total_bytes / 100
            }
        };
        if enough && done.level >= self.level {
            return Ok(done);
        }
        let why = format!(
            "{}: {} of {} bytes were scrubbed, level {}",
            self.node,
            done.covered_bytes,
            done.total_bytes,
            <&str>::from(done.level)
        );
        Err(ActionError::permanent(codes::SCRUB_FAILED, why))
    }
}
