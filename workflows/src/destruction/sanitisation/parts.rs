//! The parts of a sanitisation record: technique, tool and actor, verification, and validation.

use crate::{
    platform::{VerifiedAs, WayBack},
    signing::Moment,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The thoroughness of a sanitisation, in the terms of NIST SP 800-88.
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
    /// Protects against simple recovery through ordinary interfaces.
    Clear,
    /// Protects against recovery in a laboratory.
    Purge,
    /// The medium cannot be used again.
    Destroy,
}

/// The technique.
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
    /// A block erase and a crypto erase.
    CryptoAndBlockErase,
    /// All addressable blocks were overwritten.
    Overwrite,
    /// The controller formatted with erasure of user data, per namespace.
    Format,
    /// The key slots of an encrypted volume were erased.
    LuksErase,
    /// The encryption key of all data was destroyed in its key store.
    KeyDestruction,
    /// Deleted with every version, delete marker and unfinished upload.
    DeleteAllVersions,
    /// Deleted.
    Delete,
    /// Revoked.
    Revoke,
    /// Removed from the tables of the fabric, network or scheduler.
    Remove,
    /// GPU memory was scrubbed. The scrub has the level.
    MemoryScrub,
    /// Memory, firmware and management controller were reset to a known state.
    Reset,
    /// The medium was shredded, melted or ground.
    PhysicalDestruction,
    /// No technique was applied.
    Nothing,
}

/// A person or a program, with the fields that NIST SP 800-88 requires for the actors of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Actor {
    /// A person's name, or a program's name with its execution.
    pub name: String,
    /// Position or title; `automated` for programs.
    pub position: String,
    /// The location.
    pub location: Option<String>,
    /// The contact details.
    pub contact: Option<String>,
}

impl Actor {
    /// Returns an actor for a program.
    pub fn program(name: impl Into<String>) -> Self {
        Self { name: name.into(), position: "automated".into(), location: None, contact: None }
    }

    /// Returns an actor for a person.
    pub fn person(name: impl Into<String>, position: impl Into<String>) -> Self {
        Self { name: name.into(), position: position.into(), location: None, contact: None }
    }
}

/// The tool of a sanitisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The command line, or the API call.
    pub command: String,
}

/// The device as it reported itself during the step, independent of the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Manufacturer.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number, UUID or WWN.
    pub serial: Option<String>,
    /// The owner's inventory number.
    pub property_number: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Capacity in bytes.
    pub capacity_bytes: Option<u64>,
    /// The values that it reported before and after, by name: the status of a sanitise operation, an HTTP status, a count.
    pub reported: BTreeMap<String, String>,
}

/// Result of the comparison of firmware and settings with known good ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirmwareCheck {
    /// They match.
    Matches {
        /// The compared measurements, such as a list with its digest.
        baseline: String,
    },
    /// They differ.
    Differs {
        /// The difference.
        what: String,
    },
    /// The firmware belongs to another party, as on a virtual machine.
    NotOurs,
}

/// The facts that make the destruction of a key equal to the destruction of its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFacts {
    /// True if it could ever leave its key store.
    pub exportable: bool,
    /// True if a plaintext backup of it was ever permitted.
    pub backup_allowed: bool,
    /// True if a read reported that there is no such key.
    pub observed_absent: bool,
    /// True if the decryption of a known ciphertext was tried and failed.
    pub decrypt_fails: bool,
    /// The end of the last snapshot of the key store that could restore it.
    pub snapshots_until: Option<Moment>,
    /// Every way to recover it, as observed before its destruction. Empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub can_come_back: BTreeSet<WayBack>,
}

/// The method of a verification.
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
    /// All data were read.
    Full,
    /// Pseudorandom places were read.
    Sampling,
    /// The written data were read back.
    ReadBack,
    /// A read did not find it.
    ObservedAbsent,
    /// A decryption was tried.
    DecryptProbe,
    /// The device's own media verification.
    MediaVerification,
}

/// Verification: the technique completed as intended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The method.
    pub method: VerificationMethod,
    /// The seed of the sampling plan.
    pub seed: Option<String>,
    /// The number of sectors, bytes, objects or places that were checked.
    pub checked: u64,
    /// The number of deviations among them.
    pub mismatches: u64,
    /// The number that could not be read. They do not count as clean.
    pub unreadable: u64,
    /// The tool.
    pub tool: Tool,
    /// The actor.
    pub actor: Actor,
    /// The credentials, as the backend reported them. `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_as: Option<VerifiedAs>,
    /// The end of the verification.
    pub at: Moment,
}

/// The decision of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ValidationVerdict {
    /// The sanitisation was effective.
    Accept,
    /// The sanitisation was ineffective, or its effect is unknown.
    Reject,
}

/// Validation: a decision, by an actor other than the sanitiser, that the sanitisation was effective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// The decision.
    pub decision: ValidationVerdict,
    /// The actor.
    pub actor: Actor,
    /// The time of the decision.
    pub at: Moment,
    /// The reason.
    pub reason: String,
}
