//! The steps that prepare newly claimed nodes of a tenant: take, partition and test them. Onboardings and quota increases share them.

use super::{ClaimedNode, NodeClaim};
use crate::{
    platform::{
        DiagnosisLevel, QualifyFinding, QualifyNode, ReadGpuLayout, RestoreGpuLayout, SetGpuLayout, TakeNode,
    },
    tenancy::{NodeId, TenantId},
};
use std::{collections::HashMap, time::Duration};

/// The number of nodes that a step processes at once: the engine's default.
const NODES_AT_ONCE: usize = 16;

/// Nodes to prepare, all in one cluster.
pub(crate) struct NodePreparation<'a> {
    pub(crate) cluster: String,
    pub(crate) tenant: &'a TenantId,
    pub(crate) nodes: &'a [ClaimedNode],
    /// The layouts before the change, in the order of `nodes`. Empty until they are read.
    pub(crate) layouts: &'a [String],
}

impl<'a> NodePreparation<'a> {
    /// Returns the nodes of `claim` that were not in the claim before.
    pub(crate) fn newly_claimed(before: Option<&NodeClaim>, claim: &NodeClaim) -> Vec<ClaimedNode> {
        let known = |node: &ClaimedNode| before.is_some_and(|before| before.nodes.contains(node));
        claim.nodes.iter().filter(|node| !known(node)).cloned().collect()
    }

    /// Returns the time limit of a step for all nodes, if `round` is enough for the nodes processed at once.
    pub(crate) fn time_limit(&self, round: Duration) -> Duration {
        let rounds = self.nodes.len().div_ceil(NODES_AT_ONCE).max(1);
        round.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    pub(crate) fn takings(&self) -> Vec<TakeNode> {
        let taking = |node: &ClaimedNode| TakeNode {
            cluster: self.cluster.clone(),
            node: node.node.to_string(),
            tenant: self.tenant.to_string(),
            owner_epoch: node.epoch.0,
        };
        self.nodes.iter().map(taking).collect()
    }

    pub(crate) fn layout_readings(&self) -> Vec<ReadGpuLayout> {
        self.each(|cluster, node| ReadGpuLayout { cluster, node })
    }

    /// Returns the changes to the layout `profile`.
    pub(crate) fn layout_settings(&self, profile: &str) -> Vec<SetGpuLayout> {
        self.each(|cluster, node| SetGpuLayout { cluster, node, profile: profile.to_owned() })
    }

    /// Returns the undo with the previous layout. A node that was not read was not changed.
    pub(crate) fn layout_before(self) -> impl Fn(&SetGpuLayout) -> RestoreGpuLayout + use<'a> {
        let nodes = self.nodes.iter().map(|node| node.node.as_str());
        let read: HashMap<&str, &String> = nodes.zip(self.layouts).collect();
        move |setting| RestoreGpuLayout {
            cluster: setting.cluster.clone(),
            node: setting.node.clone(),
            previous: read
                .get(setting.node.as_str())
                .map_or_else(|| setting.profile.clone(), |&read| read.clone()),
        }
    }

    pub(crate) fn qualifications(&self) -> Vec<QualifyNode> {
        self.each(|cluster, node| QualifyNode { cluster, node, level: DiagnosisLevel::Medium })
    }

    /// Returns the node of a finding if it is unfit and one of these nodes.
    pub(crate) fn unfit(&self, found: &QualifyFinding) -> Option<NodeId> {
        let unfit = self.nodes.iter().find(|node| !found.fit && node.node.as_str() == found.node);
        unfit.map(|node| node.node.clone())
    }

    fn each<T>(&self, make: impl Fn(String, String) -> T) -> Vec<T> {
        self.nodes.iter().map(|node| make(self.cluster.clone(), node.node.to_string())).collect()
    }
}
