//! The pieces that the GPUs of a node offer, by their layout.
//!
//! Used by quotas, admission, claims of nodes and observations. Invariant: only this module derives from a layout the kind of a node's GPUs and the number of
//! their pieces.

use crate::tenancy::{GpuKind, GpuModel, Gpus, Profile, Resource};
use serde::{Deserialize, Serialize};

/// The slices of each GPU of a tenant's nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSlicing {
    /// The profile of every slice, such as `1g.10gb`.
    pub profile: Profile,
    /// The number of slices on one GPU.
    pub per_gpu: u16,
}

impl GpuSlicing {
    /// Returns the name that layout managers of nodes use for it.
    #[must_use]
    pub fn layout(&self) -> String {
        format!("{CUT}{}", self.profile)
    }
}

/// The pieces of every GPU of a node: whole GPUs, or slices of one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuOffer {
    /// The counted kind.
    pub kind: GpuKind,
    /// The number of pieces of that kind on one GPU; 1 for whole GPUs.
    pub per_gpu: u16,
}

impl GpuOffer {
    /// Returns the offer of GPUs of `model` with these slices, or of whole GPUs for `None`.
    #[must_use]
    pub fn of(model: &GpuModel, slicing: Option<&GpuSlicing>) -> Self {
        let profile = slicing.map(|slicing| slicing.profile.clone());
        let per_gpu = slicing.map_or(1, |slicing| slicing.per_gpu.max(1));
        Self { kind: GpuKind { model: model.clone(), profile }, per_gpu }
    }

    /// Returns the resource of quotas.
    #[must_use]
    pub fn resource(&self) -> Resource {
        Resource::Gpu(self.kind.clone())
    }

    /// Returns the pieces on this number of GPUs.
    #[must_use]
    pub fn pieces(&self, gpus: Gpus) -> u64 {
        u64::from(gpus.0).saturating_mul(u64::from(self.per_gpu))
    }

    /// Returns the fewest GPUs with this number of pieces.
    #[must_use]
    pub fn gpus_for(&self, pieces: u64) -> Gpus {
        Gpus(u32::try_from(pieces.div_ceil(u64::from(self.per_gpu.max(1)))).unwrap_or(u32::MAX))
    }
}

/// The prefix of a layout with slices of one profile on every GPU.
const CUT: &str = "all-";
/// Layouts with whole GPUs.
const WHOLE: [&str; 2] = ["all-disabled", "time-sliced"];

/// Returns true if a node of this layout offers whole GPUs (`None`) or slices of a profile. A node of an unknown layout offers neither.
#[must_use]
pub fn layout_offers(layout: &str, profile: Option<&str>) -> bool {
    match profile {
        None => WHOLE.contains(&layout),
        Some(profile) => !WHOLE.contains(&layout) && layout.strip_prefix(CUT) == Some(profile),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partitioned_node_offers_only_slices_of_its_profile() {
        let model: GpuModel = "H100".parse().unwrap();
        let slicing = GpuSlicing { profile: "2g.20gb".parse().unwrap(), per_gpu: 3 };
        let offer = GpuOffer::of(&model, Some(&slicing));

        assert_eq!((offer.kind.to_string().as_str(), offer.pieces(Gpus(8))), ("H100/2g.20gb", 24));
        assert_eq!((offer.gpus_for(24), offer.gpus_for(25), offer.gpus_for(0)), (Gpus(8), Gpus(9), Gpus(0)));
        let layout = slicing.layout();
        assert!(layout_offers(&layout, Some("2g.20gb")));
        assert!(!layout_offers(&layout, None), "a whole GPU of a cut node");
        assert!(!layout_offers(&layout, Some("1g.10gb")), "slices of another profile");
    }

    #[test]
    fn an_unpartitioned_node_offers_only_whole_gpus() {
        for layout in WHOLE {
            assert!(layout_offers(layout, None));
            assert!(!layout_offers(layout, Some("1g.10gb")) && !layout_offers(layout, Some("disabled")));
        }
        assert!(!layout_offers("custom", None) && !layout_offers("custom", Some("1g.10gb")));
        let whole = GpuOffer::of(&"T4".parse().unwrap(), None);
        assert_eq!((whole.resource().to_string().as_str(), whole.pieces(Gpus(4))), ("gpu/T4", 4));
    }
}
