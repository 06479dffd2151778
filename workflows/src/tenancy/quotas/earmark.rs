//! What open changes of quotas have set aside of a tenant's capacity, so that nobody else is given it meanwhile.

use crate::tenancy::{AllocatedNode, Allowance, NodeId, QuotaEnd, Resource, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::ExecutionId;

/// What one change has set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earmark {
    /// For which workspace.
    pub workspace: WorkspaceName,
    /// Of which resource.
    pub resource: Resource,
    /// What will come on top of the quota in force, or was part of it and may still be in force on the platform.
    pub amount: u64,
    /// Nodes that were claimed for it and do not serve yet.
    pub nodes: BTreeMap<NodeId, AllocatedNode>,
    /// Pieces of the resource on each GPU of such nodes: slices, or 1 for whole GPUs.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub per_gpu: u16,
    /// The allowance that a decrease has replaced, and the end that it had, to be put back if it is given up.
    pub replaced: Option<(Allowance, Option<QuotaEnd>)>,
}

/// The earmarks of a tenant, by the execution that made them. A head document: every change of them rewrites it, and
/// every sum of quotas is weighed with it (I-5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earmarks {
    /// Of whose capacity.
    pub tenant: TenantId,
    /// By execution.
    pub open: BTreeMap<ExecutionId, Earmark>,
}

impl Earmarks {
    /// None.
    #[must_use]
    pub fn empty(tenant: TenantId) -> Self {
        Self { tenant, open: BTreeMap::new() }
    }

    /// What is set aside of `resource` in all, beyond the nodes that were claimed for it: a change may be given up, and its
    /// nodes with it, so nobody else counts on them.
    #[must_use]
    pub fn total(&self, resource: &Resource) -> u64 {
        let marks = self.open.values().filter(|mark| mark.resource == *resource);
        marks.map(|mark| mark.amount.saturating_sub(mark.claimed())).sum()
    }

    /// What open increases of `resource` will add to the quotas.
    #[must_use]
    pub fn promised(&self, resource: &Resource) -> u64 {
        let marks = self.open.values().filter(|mark| mark.resource == *resource && mark.replaced.is_none());
        marks.map(|mark| mark.amount).sum()
    }
}

impl Earmark {
    /// What the nodes that were claimed for it have of its resource.
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
