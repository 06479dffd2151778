//! Capacity that running quota changes have reserved, so that no other change uses it.

use crate::tenancy::{AllocatedNode, Allowance, NodeId, QuotaEnd, Resource, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::ExecutionId;

/// The reservation of one quota change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earmark {
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The amount that will be added to the quota in force, or was removed from it and may still be in force on the platform.
    pub amount: u64,
    /// Nodes that were claimed for it and are not in service yet.
    pub nodes: BTreeMap<NodeId, AllocatedNode>,
    /// Pieces of the resource on each GPU of such nodes: slices, or 1 for whole GPUs.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub per_gpu: u16,
    /// The allowance before a decrease, with its end, to restore if the change is undone.
    pub replaced: Option<(Allowance, Option<QuotaEnd>)>,
}

/// The earmarks of a tenant, by their execution. A head document: every change rewrites it, and every sum of quotas includes it (I-5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earmarks {
    /// The tenant.
    pub tenant: TenantId,
    /// By execution.
    pub open: BTreeMap<ExecutionId, Earmark>,
}

impl Earmarks {
    /// Creates an empty list.
    #[must_use]
    pub fn empty(tenant: TenantId) -> Self {
        Self { tenant, open: BTreeMap::new() }
    }

    /// Returns the reserved amount of `resource`, without the nodes claimed for it. If a change is undone, its nodes are released, so no other change counts on
    /// them.
    #[must_use]
    pub fn total(&self, resource: &Resource) -> u64 {
        let marks = self.open.values().filter(|mark| mark.resource == *resource);
        marks.map(|mark| mark.amount.saturating_sub(mark.claimed())).sum()
    }

    /// Returns the amount that running increases of `resource` will add to the quotas.
    #[must_use]
    pub fn promised(&self, resource: &Resource) -> u64 {
        let marks = self.open.values().filter(|mark| mark.resource == *resource && mark.replaced.is_none());
        marks.map(|mark| mark.amount).sum()
    }
}

impl Earmark {
    /// Returns the amount of its resource on the nodes claimed for it.
    #[must_use]
    pub fn claimed(&self) -> u64 {
        let gpus: u64 = self.nodes.values().map(|held| u64::from(held.gpus.0)).sum();
        gpus.saturating_mul(u64::from(self.per_gpu.max(1)))
    }
}

fn whole() -> u16 {
    1
}

fn is_whole(per_gpu: &u16) -> bool {
    *per_gpu == 1
}

impl Entity for Earmarks {
    const COLLECTION: &'static str = "earmarks";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}
