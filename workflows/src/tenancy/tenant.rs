//! A tenant: the boundary of isolation, contract, keys and destruction.

use super::PolicyRef;
use super::{ClusterId, Residency, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{ExecutionId, Timestamp};

/// What service was sold.
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
    /// Small and cheap; served without people inside the policy's limits.
    Research,
}

/// How far the tenant is kept apart from others. Nodes are never shared, on any level.
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

/// Rules of law or contract that select further rules.
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

/// Who shares what a tenant has.
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

/// Where a tenant stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TenantState {
    /// The name is reserved; nothing can run yet.
    Onboarding,
    /// In use.
    Active,
    /// On its way out; everything can still be taken back.
    Leaving,
    /// Its data is being destroyed; nothing leads back.
    Destroying,
    /// Gone for good. The name is a tombstone, and never used again.
    Closed,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub id: TenantId,
    /// What service was sold.
    pub tier: Tier,
    /// How far it is kept apart.
    pub isolation: Isolation,
    /// Where its work and data may be.
    pub data_residency: Residency,
    /// Whether its work may be preempted, and so may borrow.
    pub allow_preemption: bool,
    /// Whether its workspaces may share one GPU.
    pub allow_gpu_sharing: bool,
    /// What further rules hold.
    pub compliance: BTreeSet<Compliance>,
    /// The policy that it was admitted under.
    pub policy: PolicyRef,
    /// Where it stands.
    pub state: TenantState,
    /// Its workspaces; never empty.
    pub workspaces: Vec<WorkspaceName>,
    /// The cluster that its nodes lie in, once claimed.
    pub cluster: Option<ClusterId>,
    /// The execution that made it, and alone may unmake it.
    pub onboarded_by: ExecutionId,
    /// When its name was reserved.
    pub created_at: Timestamp,
    /// When it became active.
    pub activated_at: Option<Timestamp>,
    /// When it was closed. `None` also for a tenant that an earlier version closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// Who shares what it has. `None` where its request said nothing, and of tenants that an earlier version onboarded: as among teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitenancy: Option<Multitenancy>,
}

/// Names that no new tenant may have: Kubernetes, the platform itself and the audit use them.
const RESERVED: [&str; 5] = ["default", "platform", "system", "tenure", "unknown"];

/// Returns true if no new tenant may have `name`. Tenants that have such a name already keep it.
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
    /// Returns true if it sells to customers of its own, who do not trust each other.
    #[must_use]
    pub fn has_customers(&self) -> bool {
        self.multitenancy == Some(Multitenancy::Customer)
    }

    /// True while nobody else may have the name: for ever, since the name of a closed tenant is a tombstone (I-14).
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

    /// The tenant in use from `at` on; an active one stays as it is, a closed one has no way back.
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
