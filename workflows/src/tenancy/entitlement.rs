//! The entitlement of a tenant: the GPUs that it bought.

use super::{GpuModel, GpuOffer, GpuSlicing, Gpus, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};

/// The bought GPUs of a contract. The sum of quotas never exceeds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlement {
    /// The tenant.
    pub tenant: TenantId,
    /// The bought model; no other is assigned.
    pub gpu_model: GpuModel,
    /// The number of GPUs.
    pub gpus: Gpus,
    /// The slices of the GPUs; `None` for whole GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// The region; `None` for any region that the residency allows.
    pub region: Option<RegionId>,
    /// The first day, such as `2026-01-31`.
    pub from: Option<String>,
    /// The day after the last.
    pub to: Option<String>,
}

impl Entitlement {
    /// Returns the pieces that each of the tenant's GPUs offers.
    #[must_use]
    pub fn offer(&self) -> GpuOffer {
        GpuOffer::of(&self.gpu_model, self.slicing.as_ref())
    }

    /// Returns the pieces that each GPU of `model` offers on the nodes of a tenant with this entitlement.
    #[must_use]
    pub fn offer_of(bought: Option<&Self>, model: &GpuModel) -> GpuOffer {
        let slicing = bought.filter(|bought| bought.gpu_model == *model);
        GpuOffer::of(model, slicing.and_then(|bought| bought.slicing.as_ref()))
    }

    /// Returns the bought amount, in pieces of [`Self::offer`]: GPUs or slices.
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
