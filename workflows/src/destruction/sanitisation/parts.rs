//! The parts of a sanitisation record: what was done, with what, by whom; what was looked at, and what was decided.

use crate::{
    platform::{VerifiedAs, WayBack},
    signing::Moment,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How thoroughly a medium was sanitised, in the words of NIST SP 800-88.
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
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Method {
    /// Against simple recovery by ordinary interfaces.
    Clear,
    /// Against recovery in a laboratory.
    Purge,
    /// The medium cannot be used any more.
    Destroy,
}

/// What was done.
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
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Technique {
    /// The controller erased all blocks.
    BlockErase,
    /// The controller changed its own media key.
    CryptoErase,
    /// Both of the above.
    CryptoAndBlockErase,
    /// All addressable blocks were written over.
    Overwrite,
    /// The controller formatted with erasure of user data, per namespace.
    Format,
    /// The key slots of an encrypted volume were erased.
    LuksErase,
    /// The key that everything was encrypted with was destroyed in its key store.
    KeyDestruction,
    /// Deleted with every version, delete marker and unfinished upload.
    DeleteAllVersions,
    /// Deleted.
    Delete,
    /// Revoked.
    Revoke,
    /// Taken out of the fabric's, network's or scheduler's tables.
    Remove,
    /// GPU memory was scrubbed: see the scrub for how far.
    MemoryScrub,
    /// Memory, firmware and management controller were brought back to a known state.
    Reset,
    /// Shredded, melted, ground.
    PhysicalDestruction,
    /// Nothing was done.
    Nothing,
}

/// Somebody, or something, that acted. The fields that NIST SP 800-88 asks of a certificate for whoever sanitised and verified.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Actor {
    /// A person's name, or a program's with the execution it acted for.
    pub name: String,
    /// Position or title; `automated` for programs.
    pub position: String,
    /// Where.
    pub location: Option<String>,
    /// How they can be reached.
    pub contact: Option<String>,
}

impl Actor {
    /// A program.
    pub fn program(name: impl Into<String>) -> Self {
        Self { name: name.into(), position: "automated".into(), location: None, contact: None }
    }

    /// A person.
    pub fn person(name: impl Into<String>, position: impl Into<String>) -> Self {
        Self { name: name.into(), position: position.into(), location: None, contact: None }
    }
}

/// What did it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The command line, or the call.
    pub command: String,
}

/// The thing as it described itself during the step, not as the inventory says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Manufacturer.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number, UUID or WWN.
    pub serial: Option<String>,
    /// The owner's number for it.
    pub property_number: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Capacity in bytes.
    pub capacity_bytes: Option<u64>,
    /// What it reported before and after, by name: a sanitize log's status, an HTTP status, a count.
    pub reported: BTreeMap<String, String>,
}

/// Whether firmware and settings are those known to be good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirmwareCheck {
    /// They are.
    Matches {
        /// What was compared, such as a list of measurements and its digest.
        baseline: String,
    },
    /// They are not.
    Differs {
        /// What differs.
        what: String,
    },
    /// The machine's firmware is not ours to look at: a virtual machine.
    NotOurs,
}

/// What makes the destruction of a key destroy what it encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFacts {
    /// Whether it could ever leave its key store.
    pub exportable: bool,
    /// Whether a plain backup of it was ever allowed.
    pub backup_allowed: bool,
    /// Whether reading it was answered with "there is no such key".
    pub observed_absent: bool,
    /// Whether decrypting a known ciphertext was tried, and failed.
    pub decrypt_fails: bool,
    /// Until when a snapshot of the key store exists that could bring it back.
    pub snapshots_until: Option<Moment>,
    /// Every way in which it can come back, as it was seen before its destruction; records of earlier versions name none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub can_come_back: BTreeSet<WayBack>,
}

/// How it was looked whether the technique did what it should.
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
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum VerificationMethod {
    /// Everything was read.
    Full,
    /// Pseudorandom places were read.
    Sampling,
    /// What was written was read back.
    ReadBack,
    /// It was looked for, and not found.
    ObservedAbsent,
    /// Decrypting was tried.
    DecryptProbe,
    /// The device's own media verification.
    MediaVerification,
}

/// Verification: did the technique complete as intended?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// How.
    pub method: VerificationMethod,
    /// The seed of the sampling plan.
    pub seed: Option<String>,
    /// Sectors, bytes, objects or places looked at.
    pub checked: u64,
    /// How many of them were not as they should be.
    pub mismatches: u64,
    /// How many could not be read. Not counted as clean.
    pub unreadable: u64,
    /// With what.
    pub tool: Tool,
    /// By whom.
    pub actor: Actor,
    /// With whose credentials, as the backend that looked answered; none in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_as: Option<VerifiedAs>,
    /// When it ended.
    pub at: Moment,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ValidationVerdict {
    /// The sanitisation was effective.
    Accept,
    /// It was not, or cannot be known to be.
    Reject,
}

/// Validation: a decision, by another than the sanitiser, that the sanitisation was effective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// Yes or no.
    pub decision: ValidationVerdict,
    /// By whom.
    pub actor: Actor,
    /// When.
    pub at: Moment,
    /// The reason.
    pub reason: String,
}
