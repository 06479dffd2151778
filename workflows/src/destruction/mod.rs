//! The destruction of a tenant's data, written down so that it can be proved: what there was, what kept it, what was done
//! to each asset, and the signed certificate that says so.
//!
//! Offboarding does; this module remembers and judges. Nothing here acts on the world but the signer. `docs/certificate.md`
//! says what a certificate claims and what it does not.

mod actions;
mod asset;
pub(crate) mod canonical;
pub mod certificate;
pub mod codes;
pub mod dsse;
mod hold;
mod inventory;
mod moment;
pub mod print;
mod retention;
mod sanitisation;
mod scrub;
mod signer;
mod work;

pub use actions::{
    CheckHolds, ForgetInventory, HoldRefused, KeepInventory, KeepRecords, PassPivot, PlaceHold, ReleaseHold,
    Standing, holds_of, standing,
};
pub use asset::{Asset, AssetId, AssetType, DataClass, Scan};
pub use canonical::Digest;
pub use hold::{Hold, HoldError, HoldKind, Holds, Pivot, Released, Scope};
pub use inventory::{Inventory, InventoryHead, InventoryPage, Open};
pub use moment::Moment;
pub use retention::{Retention, RetentionRule, Then, resolve};
pub use sanitisation::{Outcome, RULES, Rule, SanitisationRecord, Why, node_is_clean};
pub use scrub::{BETWEEN_TENANTS, GpuScrub, LEAST_COVERAGE_PERCENT, ScrubGap, ScrubLevel};
pub use signer::{KeyFile, PublicKey, Signer, SigningKey};
pub use work::{
    Actor, Device, FirmwareCheck, Judgement, KeyFacts, Method, Technique, Tool, Validation, Verification,
    VerificationMethod,
};
