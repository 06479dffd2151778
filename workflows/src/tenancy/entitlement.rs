//! What a tenant bought.

use super::{GpuModel, Gpus, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};

/// A line of a contract: quotas are made from it and never exceed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlement {
    /// Whose it is.
    pub tenant: TenantId,
    /// The model that was bought; no other is given.
    pub gpu_model: GpuModel,
    /// How many.
    pub gpus: Gpus,
    /// Where; `None` wherever residency allows.
    pub region: Option<RegionId>,
    /// The first day, as `2026-01-31`.
    pub from: Option<String>,
    /// The day after the last.
    pub to: Option<String>,
}

impl Entity for Entitlement {
    const COLLECTION: &'static str = "entitlements";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}
