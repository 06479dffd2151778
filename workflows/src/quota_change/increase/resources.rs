//! The changes of an increase, from data that plan and steps share.

use super::QuotaIncrease;
use crate::{
    ledger::{ClaimedNode, ExtendWait, JoinWaitlist},
    placement::{Constraints, NodeRequest},
    platform::{DiagnosisLevel, QualifyNode, ReadGpuLayout, RestoreGpuLayout, SetGpuLayout, TakeNode},
    quota_change::{GrantQuota, HoldCapacity, LayerSteps, PrepareHeld},
    tenancy::{Gpus, Isolation, Layout, Residency},
};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// The number of nodes that a step processes at once: the engine's default.
const NODES_AT_ONCE: usize = 16;

impl QuotaIncrease {
    pub(super) fn steps(&self) -> LayerSteps<'_> {
        LayerSteps { request: &self.request, terms: self.terms.as_ref(), read: &self.limits }
    }

    /// Returns the nodes to wait for; `None` for a resource that is not counted by nodes.
    pub(super) fn ask(&self) -> Option<NodeRequest> {
        let model = self.request.resource.gpu().map(|kind| kind.model.clone())?;
        let gpus = self.terms.as_ref().map_or(Gpus(1), |terms| terms.lacking.max(Gpus(1)));
        Some(NodeRequest { model, gpus })
    }

    pub(super) fn constraints(&self) -> Constraints {
        let plain = || Constraints {
            tenant: self.request.tenant.clone(),
            residency: Residency::Any,
            regions: None,
            cluster: None,
            isolation: Isolation::DedicatedNodes,
            kind: None,
            simulated: None,
            buffer: Gpus::ZERO,
            buffers: BTreeMap::new(),
            drivers: Vec::new(),
            pins: BTreeMap::new(),
            apart: Vec::new(),
        };
        self.terms.as_ref().map_or_else(plain, |terms| terms.constraints.clone())
    }

    pub(super) fn holding(&self) -> HoldCapacity {
        let (before, after) = self.steps().allowances();
        HoldCapacity {
            tenant: self.request.tenant.clone(),
            workspace: self.request.workspace.clone(),
            resource: self.request.resource.clone(),
            before,
            after,
            ends: self.terms.as_ref().and_then(|terms| terms.ends),
            constraints: self.constraints(),
            exception: self.request.exception,
            overcommit: self.terms.as_ref().is_some_and(|terms| terms.overcommit),
        }
    }

    pub(super) fn joining(&self) -> Vec<JoinWaitlist> {
        let joining = |ask| JoinWaitlist {
            tenant: self.request.tenant.clone(),
            ask,
            constraints: self.constraints(),
            limit: self.steps().waits().wait,
        };
        self.ask().map(joining).into_iter().collect()
    }

    pub(super) fn extension(&self) -> Vec<ExtendWait> {
        let extension =
            |ask| ExtendWait { ask, constraints: self.constraints(), by: self.steps().waits().wait };
        self.ask().map(extension).into_iter().collect()
    }

    pub(super) fn grant(&self) -> GrantQuota {
        let (before, after) = self.steps().allowances();
        GrantQuota {
            tenant: self.request.tenant.clone(),
            workspace: self.request.workspace.clone(),
            resource: self.request.resource.clone(),
            before,
            after,
            ends: self.terms.as_ref().and_then(|terms| terms.ends),
        }
    }

    fn tenant(&self) -> String {
        self.request.tenant.to_string()
    }

    fn cluster(&self) -> String {
        self.terms.as_ref().map(|terms| terms.cluster.to_string()).unwrap_or_default()
    }

    /// Returns the time limit of a step for all new nodes, if `round` is enough for the nodes processed at once.
    pub(super) fn for_nodes(&self, round: Duration) -> Duration {
        let rounds = self.fresh.len().div_ceil(NODES_AT_ONCE).max(1);
        round.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    fn fresh_nodes(&self) -> impl Iterator<Item = String> {
        self.fresh.iter().map(|node| node.node.to_string())
    }

    pub(super) fn preparations(&self) -> Vec<PrepareHeld> {
        let one = self.fresh.first().map(|_| PrepareHeld { tenant: self.request.tenant.clone() });
        one.into_iter().collect()
    }

    pub(super) fn takings(&self) -> Vec<TakeNode> {
        let taking = |node: &ClaimedNode| TakeNode {
            cluster: self.cluster(),
            node: node.node.to_string(),
            tenant: self.tenant(),
            owner_epoch: node.epoch.0,
        };
        self.fresh.iter().map(taking).collect()
    }

    pub(super) fn layout_readings(&self) -> Vec<ReadGpuLayout> {
        self.fresh_nodes().map(|node| ReadGpuLayout { cluster: self.cluster(), node }).collect()
    }

    /// Returns the layout of the tenant's other nodes, by its name on nodes.
    fn profile(&self) -> String {
        if let Some(slicing) = self.terms.as_ref().and_then(|terms| terms.slicing.as_ref()) {
            return slicing.layout();
        }
        let layout = self.terms.as_ref().map_or(Layout::Whole, |terms| terms.layout);
        let model = self.request.resource.gpu().map(|kind| &kind.model);
        model.map(|model| layout.profile(model)).unwrap_or_default().into()
    }

    pub(super) fn layout_settings(&self) -> Vec<SetGpuLayout> {
        let profile = self.profile();
        let setting = |node| SetGpuLayout { cluster: self.cluster(), node, profile: profile.clone() };
        self.fresh_nodes().map(setting).collect()
    }

    /// Returns the undo with the previous layout. A node that was not read was not changed.
    pub(super) fn layout_before(&self) -> impl Fn(&SetGpuLayout) -> RestoreGpuLayout {
        let nodes = self.fresh.iter().map(|node| node.node.as_str());
        let read: HashMap<&str, &String> = nodes.zip(&self.layouts).collect();
        move |setting| RestoreGpuLayout {
            cluster: setting.cluster.clone(),
            node: setting.node.clone(),
            previous: read
                .get(setting.node.as_str())
                .map_or_else(|| setting.profile.clone(), |&read| read.clone()),
        }
    }

    pub(super) fn qualifications(&self) -> Vec<QualifyNode> {
        let one = |node| QualifyNode { cluster: self.cluster(), node, level: DiagnosisLevel::Medium };
        self.fresh_nodes().map(one).collect()
    }
}
