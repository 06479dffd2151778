//! The changes of an increase, from data that plan and steps share.

use super::QuotaIncrease;
use crate::{
    ledger::{ExtendWait, JoinWaitlist, node_preparation::NodePreparation},
    placement::{Constraints, NodeRequest},
    quota_change::{GrantQuota, HoldCapacity, LayerSteps, PrepareHeld},
    tenancy::{Gpus, Isolation, Layout, Residency},
};
use std::collections::BTreeMap;

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

    fn cluster(&self) -> String {
        self.terms.as_ref().map(|terms| terms.cluster.to_string()).unwrap_or_default()
    }

    pub(super) fn preparations(&self) -> Vec<PrepareHeld> {
        let one = self.fresh.first().map(|_| PrepareHeld { tenant: self.request.tenant.clone() });
        one.into_iter().collect()
    }

    /// Returns the preparation of the nodes that are new in the claim.
    pub(super) fn new_nodes(&self) -> NodePreparation<'_> {
        NodePreparation {
            cluster: self.cluster(),
            tenant: &self.request.tenant,
            nodes: &self.fresh,
            layouts: &self.layouts,
        }
    }

    /// Returns the layout of the tenant's other nodes, by its name on nodes.
    pub(super) fn profile(&self) -> String {
        if let Some(slicing) = self.terms.as_ref().and_then(|terms| terms.slicing.as_ref()) {
            return slicing.layout();
        }
        let layout = self.terms.as_ref().map_or(Layout::Whole, |terms| terms.layout);
        let model = self.request.resource.gpu().map(|kind| &kind.model);
        model.map(|model| layout.profile(model)).unwrap_or_default().into()
    }
}
