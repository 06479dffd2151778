//! A tenant: the boundary of isolation, contract, keys and destruction.

use super::PolicyRef;
use super::{ClusterId, Residency, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{ExecutionId, Timestamp};

/// The service tier.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Tier {
    /// The highest.
    Enterprise,
    /// The usual.
    Standard,
    /// Small and cheap; needs no approval within the policy's limits.
    Research,
}

/// The isolation level. Tenants never share nodes, on any level.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Isolation {
    /// A cluster of its own.
    DedicatedCluster,
    /// Nodes of its own in a shared cluster. `dedicated` in documents.
    DedicatedNodes,
    /// Nodes of its own, whose GPUs its workspaces share in slices.
    SharedSlices,
}

/// Compliance tags: laws and contracts that select more rules.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Compliance {
    /// US health data.
    Hipaa,
    /// EU personal data.
    Gdpr,
    /// Payment cards.
    Pci,
    /// Service organisation controls.
    Soc2,
    /// FDA electronic records.
    #[serde(rename = "21cfr11")]
    #[strum(serialize = "21cfr11")]
    Cfr11,
}

/// The groups that share a tenant.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Multitenancy {
    /// Teams of one organisation, each with a workspace.
    Team,
    /// Workloads of one team.
    Workload,
    /// Customers of the tenant, who do not trust each other.
    Customer,
}

/// The state of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TenantState {
    /// The name is reserved; no workload can run yet.
    Onboarding,
    /// In use.
    Active,
    /// The offboarding has begun and can still be undone.
    Leaving,
    /// The data is being destroyed; this cannot be undone.
    Destroying,
    /// Closed for good. The name is a tombstone and can never be reused.
    Closed,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// The name.
    pub id: TenantId,
    /// The service tier.
    pub tier: Tier,
    /// The isolation level.
    pub isolation: Isolation,
    /// The allowed locations of its workloads and data.
    pub data_residency: Residency,
    /// True if its workloads may be preempted, and so may borrow.
    pub allow_preemption: bool,
    /// True if its workspaces may share one GPU.
    pub allow_gpu_sharing: bool,
    /// The compliance tags.
    pub compliance: BTreeSet<Compliance>,
    /// The policy version of its onboarding.
    pub policy: PolicyRef,
    /// The state.
    pub state: TenantState,
    /// The workspaces; never empty.
    pub workspaces: Vec<WorkspaceName>,
    /// The cluster of its nodes, once claimed.
    pub cluster: Option<ClusterId>,
    /// The execution that created it. Only this execution may undo that.
    pub onboarded_by: ExecutionId,
    /// When its name was reserved.
    pub created_at: Timestamp,
    /// When it became active.
    pub activated_at: Option<Timestamp>,
    /// When it was closed. Also `None` for a tenant that an earlier version closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The groups that share it. `None` if its request did not say, and for tenants of earlier versions; counts as teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitenancy: Option<Multitenancy>,
}

/// Names that no new tenant may have, because Kubernetes, the platform or the audit use them.
const RESERVED: [&str; 5] = ["default", "platform", "system", "tenure", "unknown"];

/// Returns true if no new tenant may have `name`. Existing tenants keep such a name.
#[must_use]
pub fn is_reserved(name: &TenantId) -> bool {
    RESERVED.contains(&name.as_str()) || name.as_str().starts_with("kube-")
}

impl Entity for Tenant {
    const COLLECTION: &'static str = "tenants";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.to_string()
    }
}

impl Tenant {
    /// Returns true if it has customers of its own, who do not trust each other.
    #[must_use]
    pub fn has_customers(&self) -> bool {
        self.multitenancy == Some(Multitenancy::Customer)
    }

    /// Returns true if no other tenant may have the name. Always true, because the name of a closed tenant is a tombstone (I-14).
    #[must_use]
    pub fn in_use(&self) -> bool {
        match self.state {
            TenantState::Onboarding
            | TenantState::Active
            | TenantState::Leaving
            | TenantState::Destroying
            | TenantState::Closed => true,
        }
    }

    /// Returns the tenant active from `at` on; an active one unchanged. `None` for a closed tenant.
    #[must_use]
    pub fn activate(&self, at: Timestamp) -> Option<Self> {
        match self.state {
            TenantState::Onboarding => {
                Some(Self { state: TenantState::Active, activated_at: Some(at), ..self.clone() })
            }
            TenantState::Active => Some(self.clone()),
            TenantState::Leaving | TenantState::Destroying | TenantState::Closed => None,
        }
    }
}
