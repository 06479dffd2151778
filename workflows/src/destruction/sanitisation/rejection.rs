//! The reasons why a sanitisation record does not count.

use crate::{
    destruction::{asset::AssetId, sanitisation::gpu_scrub::ScrubGap},
    platform::{KeySafety, WayBack},
    signing::Moment,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::ExecutionId;

/// The reason why an asset does not count as clean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each says itself in its message")]
pub enum NotClean {
    #[error("there is no record of what was done to it")]
    NoRecord,
    #[error("it is not known how its sanitisation ended")]
    Unknown,
    #[error("it was skipped: {reason}")]
    Skipped { reason: String },
    #[error("its sanitisation failed: {reason}")]
    Failed { reason: String },
    #[error("the record says that nothing was done to it")]
    NothingDone,
    #[error("the record of a medium names no method: clear, purge or destroy")]
    NoMethod,
    #[error("it has not been verified")]
    NotVerified,
    #[error("that it was done was stated by {by}, and not observed")]
    Stated { by: String },
    #[error("{actor} both did the work and verified it: another must look")]
    VerifierIsDoer { actor: String },
    #[error("its verification looked at nothing")]
    NothingChecked,
    #[error(
        "its verification found {mismatches} places that were not as they should be, and {unreadable} that could not be read"
    )]
    Mismatches { mismatches: u64, unreadable: u64 },
    #[error("nobody has validated it")]
    NotValidated,
    #[error("{by} rejected it: {reason}")]
    Rejected { by: String, reason: String },
    #[error("{actor} both sanitised and validated it: another must decide")]
    SameActor { actor: String },
    #[error("{named} witnesses are named for its destruction, and two different ones are needed")]
    Witnesses { named: usize },
    #[error("{rule:?} is none of the rules by which nothing has to be done")]
    NoSuchRule { rule: String },
    #[error("the rule {rule} does not hold for such a thing")]
    RuleDoesNotHold { rule: String },
    #[error("the rule {rule} was used without a reason")]
    NoReason { rule: String },
    #[error("the rule {rule} needs the day on which what is kept will be destroyed")]
    NoDay { rule: String },
    #[error("the record does not say when the work ended")]
    NotEnded,
    #[error("the times of the record are out of order: {earlier} comes after {later}")]
    OutOfOrder { earlier: Moment, later: Moment },
    #[error("it was sanitised before {since}, when there was data on it still")]
    Stale { since: Moment },
    #[error("its record is of another execution, {run}")]
    OtherRun { run: ExecutionId },
    #[error("no scrub of the GPU's memory is recorded")]
    NoScrub,
    #[error(transparent)]
    Scrub(ScrubGap),
    #[error("the node's firmware has not been checked")]
    NoFirmwareCheck,
    #[error("the node's firmware is not the one known to be good: {what}")]
    Firmware { what: String },
    #[error("the record of a destroyed key does not say what makes its destruction count")]
    NoKeyFacts,
    #[error("the key could leave its key store, so its destruction proves nothing")]
    KeyCouldLeave,
    #[error(
        "the key could leave its key store and can come back ({}), so its destruction proves nothing, and nothing that it encrypted is destroyed with it",
        KeySafety::said(.ways)
    )]
    KeyCanComeBack { ways: BTreeSet<WayBack> },
    #[error("the key was not looked for after its destruction, or decrypting with it was not tried")]
    KeyNotProbed,
    #[error("the record is about {about}")]
    OtherAsset { about: AssetId },
    #[error("the inventory says serial number {inventory}, and the device said {device}")]
    SerialDiffers { inventory: String, device: String },
    #[error("the inventory lists it as {0}, which nobody has settled")]
    Open(crate::destruction::inventory::OpenReason),
}
