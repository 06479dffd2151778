//! The evidence of the destruction of a tenant's data: the inventory, the holds, the record of each asset, and the signed certificate.
//!
//! The offboarding destroys; this module records and judges. Only the signer calls an external system. `docs/certificate.md` describes the claims of
//! a certificate and their limits.

mod asset;
pub mod certificate;
mod closed_look;
pub mod codes;
mod hold_orders;
mod inventory;
pub(crate) mod key_destruction;
mod ledger;
mod legal_hold;
mod released_hold;
mod retention;
pub(crate) mod sanitisation;

pub use asset::{Asset, AssetId, AssetType, DataClass, Scan};
pub use closed_look::{ClosedTenantLook, RemainsStanding, SeenRemains, UnansweredSource};
pub use hold_orders::{PlaceHold, ReleaseHold};
pub(crate) use inventory::assets_of_node;
pub use inventory::{Inventory, InventoryHead, InventoryPage, OpenReason};
pub use ledger::{
    CheckHolds, DestructionProgress, ForgetInventory, HoldRefused, KeepInventory, KeepRecords, PassPivot,
    destruction_progress, holds_of,
};
pub use legal_hold::{Hold, HoldError, HoldKind, HoldScope, Holds, Pivot};
pub use released_hold::ReleasedHold;
pub use retention::{AfterRetention, ResolvedRetention, RetentionRule, resolve};
pub use sanitisation::attribution::RecordedRepair;
pub(crate) use sanitisation::attribution::{SKIP, statement_about};
pub use sanitisation::gpu_scrub::{BETWEEN_TENANTS, GpuScrub, LEAST_COVERAGE_PERCENT, ScrubGap, ScrubLevel};
pub use sanitisation::observation::{Aspect, Look, ObservationRef, Observations};
pub use sanitisation::parts::{
    Actor, Device, FirmwareCheck, KeyFacts, Method, Technique, Tool, Validation, ValidationVerdict,
    Verification, VerificationMethod,
};
pub use sanitisation::record::{
    EXEMPTION_RULES, ExemptionRule, SanitisationOutcome, SanitisationRecord, node_is_clean,
};
pub use sanitisation::rejection::NotClean;
