//! A cluster: the boundary of a failure's reach and of a credential.

use crate::tenancy::{ClusterId, GpuModel, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What schedules a cluster's work.
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
    /// Machines handed over whole, without a scheduler.
    BareMetal,
}

/// Who may have nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tenancy {
    /// Many tenants, each with nodes of its own.
    Shared,
    /// One tenant at a time.
    Dedicated {
        /// The tenant that has it, or `None` while it waits for one.
        tenant: Option<TenantId>,
    },
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name.
    pub id: ClusterId,
    /// Where it stands.
    pub region: RegionId,
    /// Who runs it: any text, since a new provider needs no new code.
    pub provider: String,
    /// What schedules its work.
    pub kind: ClusterKind,
    /// Who may have nodes of it.
    pub tenancy: Tenancy,
    /// Which backend reaches it.
    pub backend: String,
    /// The GPU models that it has or had, so that its pools can be found.
    pub models: BTreeSet<GpuModel>,
    /// What its target lacks before a tenant can be onboarded in it, as the server found at its last start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
}

impl Cluster {
    /// The backend of a cluster that names none: nothing real is changed.
    pub const SIMULATED: &'static str = "simulated";

    /// Whether nothing real is behind it; plans and output say so.
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
