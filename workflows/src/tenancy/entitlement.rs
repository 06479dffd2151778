//! What a tenant bought.

use super::{GpuModel, GpuOffer, GpuSlicing, Gpus, RegionId, TenantId};
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
    /// How the GPUs are cut into slices; `None` for whole GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// Where; `None` wherever residency allows.
    pub region: Option<RegionId>,
    /// The first day, as `2026-01-31`.
    pub from: Option<String>,
    /// The day after the last.
    pub to: Option<String>,
}

impl Entitlement {
    /// Returns what each of the tenant's GPUs offers.
    #[must_use]
    pub fn offer(&self) -> GpuOffer {
        GpuOffer::of(&self.gpu_model, self.slicing.as_ref())
    }

    /// Returns what each GPU of `model` offers on the nodes of a tenant that bought this, if it bought anything.
    #[must_use]
    pub fn offer_of(bought: Option<&Self>, model: &GpuModel) -> GpuOffer {
        let slicing = bought.filter(|bought| bought.gpu_model == *model);
        GpuOffer::of(model, slicing.and_then(|bought| bought.slicing.as_ref()))
    }

    /// Returns what was bought, in pieces of [`Self::offer`]: GPUs or slices.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.offer().pieces(self.gpus)
    }
}

impl Entity for Entitlement {
    const COLLECTION: &'static str = "entitlements";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}
