//! A cluster: the boundary of failures and of a credential.

use crate::tenancy::{ClusterId, GpuModel, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The scheduler of a cluster.
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
pub enum ClusterKind {
    /// Kubernetes with Kueue.
    Kubernetes,
    /// Slurm.
    Slurm,
    /// Whole machines without a scheduler.
    BareMetal,
}

/// The tenants that may have nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tenancy {
    /// Many tenants, each with nodes of its own.
    Shared,
    /// One tenant at a time.
    Dedicated {
        /// The tenant that has it; `None` while it is available.
        tenant: Option<TenantId>,
    },
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The name.
    pub id: ClusterId,
    /// The region.
    pub region: RegionId,
    /// The provider: any text, so that a new provider needs no new code.
    pub provider: String,
    /// The scheduler.
    pub kind: ClusterKind,
    /// The tenancy.
    pub tenancy: Tenancy,
    /// The name of its backend.
    pub backend: String,
    /// The GPU models that it has or had, for finding its pools.
    pub models: BTreeSet<GpuModel>,
    /// Problems of its target that prevent an onboarding, found at the server's last start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
}

impl Cluster {
    /// The backend of a cluster without a real target.
    pub const SIMULATED: &'static str = "simulated";

    /// Returns true if it has no real target. Plans and output show this.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.backend == Self::SIMULATED
    }
}

impl Entity for Cluster {
    const COLLECTION: &'static str = "clusters";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.to_string()
    }
}
