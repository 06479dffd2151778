//! The GPUs under a workload: where it runs, who has them open, and what is in their memory.
//!
//! Invariant: GPUs are looked at and cleared only if they were observed. The one exception is an eviction that an earlier version took past
//! its point of no return: it ends on the GPUs that people agreed to.

use crate::platform::{
    CallMetadata, GpuSet, ObservedGpus, Platform, ScrubLevel, Scrubbed, WorkloadRef, at_cluster, codes,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt::Debug};

/// Asks the cluster on which GPUs a workload runs: on none if the cluster says that it runs nowhere, and nobody saw it before. Changes
/// nothing, so it is safe to run twice.
///
/// `gpu.unobserved` if nobody can say: the cluster names a node and not the GPUs on it, or lets it run and names no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserveGpus {
    /// Which workload.
    pub workload: WorkloadRef,
    /// Where earlier looks saw it.
    pub before: ObservedGpus,
    /// Where its cluster's facts last said that it runs: they may name GPUs on a node of which the scheduler knows only the name.
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
        // One that has left is looked for where it was last seen.
        let all = if all.is_empty() { self.facts.clone() } else { all };
        let name = self.workload.full_name();
        let why = match all.unknown_on() {
            Some(node) => format!("{name} runs on node {node}, and nobody says on which GPUs"),
            None if runs && all.is_empty() => {
                format!("{name} is let run, and its cluster does not say where")
            }
            None => return Ok(all),
        };
        Err(ActionError::permanent(codes::GPUS_UNOBSERVED, why))
    }
}

/// Looks once whether anybody has some GPUs open. Changes nothing. `gpu.unobserved` if it is not known which GPUs to look at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListGpuClients {
    /// In which cluster.
    pub cluster: String,
    /// Which GPUs, as they were observed; `None` if no observer was asked.
    pub gpus: Option<ObservedGpus>,
    /// GPUs that a plan of an earlier version named; looked at only where no observer was asked.
    #[serde(default, skip_serializing_if = "GpuSet::is_empty")]
    pub earlier: GpuSet,
}

impl Action for ListGpuClients {
    const NAME: &'static str = "ListGpuClients";
    type Platform = Platform;
    /// Who has them open.
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
            let why = "it is not known which GPUs to look at: what was not looked at is not free";
            return Err(ActionError::permanent(codes::GPUS_UNOBSERVED, why));
        };
        let mut open = BTreeSet::new();
        for (node, gpus) in looked_at {
            open.extend(on.workloads.clients(&self.cluster, node, gpus, &stamp.for_part(node)).await?);
        }
        Ok(open.into_iter().collect())
    }
}

/// Clears the memory of a node's GPUs before another uses them, and keeps what was seen.
///
/// Safe to run twice: the target answers the same key as before, and clearing what is clear does no harm.
/// `gpu.scrub_failed` when less than 95 % of the memory was covered, or less was done than asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScrubGpus {
    /// In which cluster.
    pub cluster: String,
    /// On which node.
    pub node: String,
    /// Which of its GPUs, by index.
    pub gpus: BTreeSet<u16>,
    /// How far.
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
            // Nobody is asked to do nothing: whoever cannot scrub could not say that it did.
            return Ok(Scrubbed::default());
        }
        if self.gpus.is_empty() {
            let why = format!("{}: no GPU is named, so none is cleared", self.node);
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
            "{}: {} of {} bytes were covered, level {}",
            self.node,
            done.covered_bytes,
            done.total_bytes,
            <&str>::from(done.level)
        );
        Err(ActionError::permanent(codes::SCRUB_FAILED, why))
    }
}
