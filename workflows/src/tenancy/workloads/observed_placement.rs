//! The observed placement of a workload, from a fact of its cluster.
//!
//! A [`Placed`](crate::tenancy::Placed) is the planned placement in the ledger. An [`ObservedPlacement`] is created only from facts, never from a plan.

use crate::tenancy::{GpuKind, NodeId, Workload, WorkloadState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// A GPU on which a workload was observed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeenGpu {
    /// The UUID of the GPU or of the MIG device, from the driver.
    pub uuid: String,
    /// The index on the node, from 0, if the observer knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u16>,
}

/// UUIDs of whole GPUs, by node and index.
pub type UuidsByNode = BTreeMap<NodeId, BTreeMap<u16, String>>;

impl SeenGpu {
    /// Returns its index and UUID if it is a whole GPU whose index is known. A MIG device has a UUID of its own, which goes with its slice.
    #[must_use]
    pub fn whole(&self) -> Option<(u16, String)> {
        let index = self.index.filter(|_| !self.uuid.starts_with("MIG-"))?;
        Some((index, self.uuid.clone()))
    }
}

/// A fact: a workload runs on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenWorkload {
    /// The name under which it was submitted to Tenure, which may be its scheduler's uid.
    pub workload: String,
    /// The uid in the cluster.
    pub uid: Option<String>,
    /// The node on which it runs.
    pub node: NodeId,
    /// The node's uid in the cluster.
    pub node_uid: Option<String>,
    /// The kind of GPU; the requested kind if absent.
    pub kind: Option<GpuKind>,
    /// The number of GPUs or slices on the node; the number in `gpus` if absent.
    pub count: Option<u64>,
    /// The GPUs, if the observer knows them.
    pub gpus: BTreeSet<SeenGpu>,
    /// The start.
    pub since: Option<Timestamp>,
}

impl SeenWorkload {
    /// Returns the number of GPUs or slices on the node.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.count.unwrap_or_else(|| u64::try_from(self.gpus.len()).unwrap_or(u64::MAX))
    }
}

/// The observed GPUs of a workload on one node. It is *bound* there; if every GPU is named, it is *observed*.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundGpus {
    /// The number of GPUs or slices.
    pub count: u64,
    /// The GPUs that an observer named.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gpus: BTreeSet<SeenGpu>,
    /// The node's uid in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uid: Option<String>,
    /// The start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl BoundGpus {
    /// Returns true if each of the GPUs is named.
    #[must_use]
    pub fn names_all(&self) -> bool {
        u64::try_from(self.gpus.len()) == Ok(self.count)
    }
}

/// The observed placement of a workload, updated by facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedPlacement {
    /// The workload's uid in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// By node.
    pub nodes: BTreeMap<NodeId, BoundGpus>,
}

impl ObservedPlacement {
    /// The most GPUs that are stored by name, so that the workload's document stays small. On further nodes it is only bound.
    pub const MOST_NAMED: usize = 256;

    /// Adds a fact about the same workload.
    pub fn add(&mut self, seen: &SeenWorkload) {
        let named: usize = self.nodes.values().map(|part| part.gpus.len()).sum();
        let part = self.nodes.entry(seen.node.clone()).or_default();
        part.count = part.count.saturating_add(seen.amount());
        if named.saturating_add(seen.gpus.len()) <= Self::MOST_NAMED {
            part.gpus.extend(seen.gpus.iter().cloned());
        }
        part.node_uid = seen.node_uid.clone().or_else(|| part.node_uid.take());
        part.since = seen.since.or(part.since);
        self.uid = seen.uid.clone().or_else(|| self.uid.take());
    }

    /// Returns the UUIDs of whole GPUs by node and index, if facts name both.
    #[must_use]
    pub fn uuids(&self) -> UuidsByNode {
        let of = |part: &BoundGpus| part.gpus.iter().filter_map(SeenGpu::whole).collect();
        self.nodes.iter().map(|(node, part)| (node.clone(), of(part))).collect()
    }

    /// Returns the indexes by node. A node with an unknown index has none.
    #[must_use]
    pub fn indexes(&self) -> BTreeMap<String, BTreeSet<u16>> {
        let of = |part: &BoundGpus| -> BTreeSet<u16> {
            let known: BTreeSet<u16> = part.gpus.iter().filter_map(|gpu| gpu.index).collect();
            if u64::try_from(known.len()) == Ok(part.count) { known } else { BTreeSet::new() }
        };
        self.nodes.iter().map(|(node, part)| (node.to_string(), of(part))).collect()
    }
}

/// The precision of a workload's known placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PlacementBasis {
    /// It was admitted, and its cluster has not reported its placement. Only the plan is known.
    Expected,
    /// The cluster reports its nodes, but not its GPUs.
    Bound,
    /// The cluster reports its GPUs.
    Observed,
}

impl Workload {
    /// Returns the precision of its known placement; `None` if it is not admitted.
    #[must_use]
    pub fn placement_basis(&self) -> Option<PlacementBasis> {
        match self.state {
            WorkloadState::Admitted | WorkloadState::Reclaimed { .. } => {}
            WorkloadState::Waiting | WorkloadState::Finished | WorkloadState::Rejected => return None,
        }
        let Some(seen) = self.observed.as_ref().filter(|seen| !seen.nodes.is_empty()) else {
            return Some(PlacementBasis::Expected);
        };
        let all = seen.nodes.values().all(BoundGpus::names_all);
        Some(if all { PlacementBasis::Observed } else { PlacementBasis::Bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_observed_only_if_the_facts_name_them() {
        let seen = |node: &str, gpus: &[(&str, Option<u16>)], count: Option<u64>| SeenWorkload {
            workload: "train".into(),
            uid: Some("uid-1".into()),
            node: node.parse().unwrap(),
            node_uid: None,
            kind: None,
            count,
            gpus: gpus.iter().map(|(uuid, index)| SeenGpu { uuid: (*uuid).into(), index: *index }).collect(),
            since: None,
        };
        let mut placement = ObservedPlacement::default();
        placement.add(&seen("n-0", &[("GPU-a", Some(0)), ("GPU-b", Some(1))], None));
        placement.add(&seen("n-1", &[("GPU-c", None)], Some(2)));

        let indexes = placement.indexes();
        assert_eq!(indexes["n-0"], [0, 1].into());
        assert!(indexes["n-1"].is_empty(), "one of two is named, and without its index");
        assert!(!placement.nodes.values().all(BoundGpus::names_all));
    }
}
