//! The GPUs of a workload: planned ones and observed ones.
//!
//! Invariant: a [`PlannedGpus`] is never converted into an [`ObservedGpus`]. Only a backend that has observed the GPUs, or the planning of an
//! eviction from the facts of a cluster, calls [`ObservedGpus::reported`].

use crate::platform::GpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The GPUs that the ledger plans for a workload. On Kubernetes the scheduler may choose others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlannedGpus(GpuSet);

impl PlannedGpus {
    /// Returns the plan as nodes and indexes, for a backend that can request a placement.
    #[must_use]
    pub fn as_set(&self) -> &GpuSet {
        &self.0
    }

    /// Returns true if no GPU is planned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<GpuSet> for PlannedGpus {
    fn from(gpus: GpuSet) -> Self {
        Self(gpus)
    }
}

impl<const N: usize> From<[(String, BTreeSet<u16>); N]> for PlannedGpus {
    fn from(gpus: [(String, BTreeSet<u16>); N]) -> Self {
        Self(gpus.into())
    }
}

impl FromIterator<(String, BTreeSet<u16>)> for PlannedGpus {
    fn from_iter<I: IntoIterator<Item = (String, BTreeSet<u16>)>>(gpus: I) -> Self {
        Self(gpus.into_iter().collect())
    }
}

/// The GPUs on which a workload was observed, by node and index. A node without indexes means that the workload was observed there on unknown GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObservedGpus(GpuSet);

impl ObservedGpus {
    /// Wraps the answer of a cluster. Only code that has queried a cluster or read its facts calls this; a test checks the sources for it.
    #[must_use]
    pub fn reported(gpus: GpuSet) -> Self {
        Self(gpus)
    }

    /// Returns true if the workload was not observed anywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first node on which the workload was observed on unknown GPUs.
    #[must_use]
    pub fn unknown_on(&self) -> Option<&str> {
        self.0.iter().find(|(_, gpus)| gpus.is_empty()).map(|(node, _)| node.as_str())
    }

    /// Iterates over the nodes and the GPUs on each.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &BTreeSet<u16>)> {
        self.0.iter()
    }

    /// Adds the GPUs of a later observation.
    #[must_use]
    pub fn and(mut self, later: &Self) -> Self {
        for (node, gpus) in &later.0 {
            self.0.entry(node.clone()).or_default().extend(gpus);
        }
        self
    }

    /// Fills in the GPUs of nodes that this observation names without indexes, from another observation.
    #[must_use]
    pub fn completed_by(mut self, other: &Self) -> Self {
        for (node, gpus) in self.0.iter_mut().filter(|(_, gpus)| gpus.is_empty()) {
            gpus.extend(other.0.get(node).into_iter().flatten());
        }
        self
    }
}

impl PartialEq<GpuSet> for ObservedGpus {
    fn eq(&self, other: &GpuSet) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(of: &[(&str, &[u16])]) -> ObservedGpus {
        let gpus = of.iter().map(|(node, gpus)| ((*node).to_owned(), gpus.iter().copied().collect()));
        ObservedGpus::reported(gpus.collect())
    }

    #[test]
    fn missing_gpu_indexes_of_a_node_are_completed_only_from_other_observations_there() {
        let vague = seen(&[("n-0", &[])]);

        assert_eq!(vague.unknown_on(), Some("n-0"));
        assert_eq!(vague.clone().completed_by(&seen(&[("n-1", &[0, 1])])).unknown_on(), Some("n-0"));
        assert_eq!(vague.completed_by(&seen(&[("n-0", &[2, 3])])), seen(&[("n-0", &[2, 3])]));
    }
}
