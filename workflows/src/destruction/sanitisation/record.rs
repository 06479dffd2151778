//! The sanitisation record of one asset, and the rule that decides if it counts.
//!
//! A record contains observations. Only [`passes`](SanitisationRecord::passes) decides if it counts. A missing, skipped or unknown result never
//! counts, and a requested deletion counts only after a read confirms it.

use super::rejection::NotClean;
use crate::{
    destruction::{
        asset::{Asset, AssetId, AssetType, DataClass},
        key_destruction,
        sanitisation::{
            attribution::RecordedRepair,
            gpu_scrub::{BETWEEN_TENANTS, GpuScrub},
            observation::Observations,
            parts::{
                Actor, Device, FirmwareCheck, KeyFacts, Method, Technique, Tool, Validation,
                ValidationVerdict, Verification,
            },
        },
    },
    signing::{Digest, Moment},
    tenancy::TenantId,
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{CompositeKey, ExecutionId};

/// The outcome of a sanitisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case", tag = "is")]
#[strum(serialize_all = "snake_case")]
pub enum SanitisationOutcome {
    /// Sanitised, and verified.
    SanitisedVerified,
    /// Sanitised, and not verified.
    SanitisedUnverified,
    /// It failed.
    Failed {
        /// The cause.
        reason: String,
    },
    /// It was skipped.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// No sanitisation was necessary, by one of the [`EXEMPTION_RULES`].
    NotApplicable {
        /// The name of the rule.
        rule: String,
        /// The reason why the rule applies.
        reason: String,
        /// The date on which the retained data will be destroyed.
        destroy_by: Option<Moment>,
    },
    /// The medium was destroyed in front of witnesses.
    PhysicallyDestroyed {
        /// The witnesses.
        witnesses: Vec<Actor>,
    },
    /// The outcome is unknown.
    Unknown,
}

/// A rule that makes a sanitisation unnecessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExemptionRule {
    /// Its name.
    pub name: &'static str,
    /// The text of the rule, for display.
    pub says: &'static str,
    /// True if the record must name the date on which the retained data are destroyed.
    pub dated: bool,
}

/// All rules that make a sanitisation unnecessary. None applies to a medium.
pub const EXEMPTION_RULES: &[ExemptionRule] = &[
    ExemptionRule {
        name: "backup_beyond_use",
        says: "a backup that cannot be deleted yet: its key is destroyed, and it is on the list that every restore replays",
        dated: true,
    },
    ExemptionRule {
        name: "holds_no_data",
        says: "configuration without content: a name, address or table entry that ends with its object",
        dated: false,
    },
    ExemptionRule {
        name: "retained_by_law",
        says: "kept by a retention rule, under a key of the provider, outside of the tenant's reach",
        dated: true,
    },
];

/// The sanitisation of one asset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SanitisationRecord {
    /// The asset.
    pub asset: AssetId,
    /// The type of the asset.
    #[serde(rename = "type")]
    pub kind: AssetType,
    /// The tenant's id.
    pub tenant: TenantId,
    /// The node that contains it.
    pub node: Option<String>,
    /// The node's owner epoch. A record of an earlier ownership proves nothing about this one.
    pub owner_epoch: Option<u64>,
    /// The class of the data on it.
    pub data_class: Option<DataClass>,
    /// The device as it reported itself.
    pub device: Device,
    /// The thoroughness. `None` for a removed asset that is not a medium.
    pub method: Option<Method>,
    /// The technique.
    pub technique: Technique,
    /// The tool.
    pub tool: Tool,
    /// The actor.
    pub actor: Actor,
    /// The execution that ran the step.
    pub run: ExecutionId,
    /// The step.
    pub step: String,
    /// The start of the work.
    pub started_at: Moment,
    /// The end of the work.
    pub ended_at: Option<Moment>,
    /// For a GPU: the scrub of its memory.
    pub scrub: Option<GpuScrub>,
    /// For a node: the result of the firmware check.
    pub firmware: Option<FirmwareCheck>,
    /// For a destroyed key: the facts that make it count.
    pub key: Option<KeyFacts>,
    /// The verification: the work completed as intended.
    pub verification: Option<Verification>,
    /// The validation: the work was effective.
    pub validation: Option<Validation>,
    /// The outcome.
    pub result: SanitisationOutcome,
    /// The next destination of a medium.
    pub destination: Option<String>,
    /// Digests of the collected evidence, by name.
    pub evidence: BTreeMap<String, Digest>,
    /// The repair that states the outcome, if no observation exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated: Option<RecordedRepair>,
    /// The observations that support the record. Empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: Observations,
}

impl SanitisationRecord {
    /// Returns a record of work that has begun. Its result is [`SanitisationOutcome::Unknown`] until it is set.
    #[must_use]
    pub fn begun(
        asset: &Asset,
        technique: Technique,
        actor: Actor,
        run: ExecutionId,
        step: impl Into<String>,
        at: Moment,
    ) -> Self {
        Self {
            asset: asset.id.clone(),
            kind: asset.kind,
            tenant: asset.tenant.clone(),
            node: asset.node.clone(),
            owner_epoch: None,
            data_class: asset.data_class,
            device: Device::default(),
            method: None,
            technique,
            tool: Tool::default(),
            actor,
            run,
            step: step.into(),
            started_at: at,
            ended_at: None,
            scrub: None,
            firmware: None,
            key: None,
            verification: None,
            validation: None,
            result: SanitisationOutcome::Unknown,
            destination: None,
            evidence: BTreeMap::new(),
            stated: None,
            observed: Observations::new(),
        }
    }

    /// Returns the digest of the whole record.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Digest::from_content("sanitisation record", self)
    }

    /// Returns the time of the last event in the record.
    pub(crate) fn last_moment(&self) -> Option<Moment> {
        let verified = self.verification.as_ref().map(|verification| verification.at);
        let validated = self.validation.as_ref().map(|validation| validation.at);
        [Some(self.started_at), self.ended_at, verified, validated].into_iter().flatten().max()
    }

    /// Returns the key of the document with the record of `asset` in `run`.
    #[must_use]
    pub fn key(run: ExecutionId, asset: &AssetId) -> String {
        CompositeKey::of(&[&run]).tail(asset).into()
    }

    /// Returns the record with a validation by another actor than the sanitiser.
    #[must_use]
    pub fn validated(self, validation: Validation) -> Self {
        Self { validation: Some(validation), ..self }
    }

    /// Checks that the asset counts as clean (I-6).
    ///
    /// # Errors
    /// The first missing condition.
    pub fn passes(&self) -> Result<(), NotClean> {
        self.observed()?;
        match &self.result {
            SanitisationOutcome::SanitisedVerified => {
                self.sanitised()?;
                self.accepted()
            }
            SanitisationOutcome::PhysicallyDestroyed { witnesses } => {
                let names: BTreeSet<_> = witnesses.iter().map(|witness| witness.name.trim()).collect();
                if names.iter().filter(|name| !name.is_empty()).count() < 2 {
                    return Err(NotClean::Witnesses { named: names.len() });
                }
                self.in_order()
            }
            SanitisationOutcome::NotApplicable { rule, reason, destroy_by } => {
                self.exempt(rule, reason, *destroy_by)
            }
            SanitisationOutcome::SanitisedUnverified => Err(NotClean::NotVerified),
            SanitisationOutcome::Failed { reason } => Err(NotClean::Failed { reason: reason.clone() }),
            SanitisationOutcome::Skipped { reason } => Err(NotClean::Skipped { reason: reason.clone() }),
            SanitisationOutcome::Unknown => Err(NotClean::Unknown),
        }
    }

    /// Checks that the record counts, and that all its events are later than `since`, the last time at which the asset held data (I-6).
    ///
    /// # Errors
    /// As [`SanitisationRecord::passes`].
    pub fn passes_since(&self, since: Moment) -> Result<(), NotClean> {
        self.passes()?;
        if self.started_at < since { Err(NotClean::Stale { since }) } else { Ok(()) }
    }

    fn sanitised(&self) -> Result<(), NotClean> {
        if self.technique == Technique::Nothing {
            return Err(NotClean::NothingDone);
        }
        if self.kind.is_medium() && self.method.is_none() {
            return Err(NotClean::NoMethod);
        }
        let Some(verification) = &self.verification else { return Err(NotClean::NotVerified) };
        if verification.checked == 0 {
            return Err(NotClean::NothingChecked);
        }
        self.looked_at_by_another(verification)?;
        if verification.mismatches > 0 || verification.unreadable > 0 {
            let Verification { mismatches, unreadable, .. } = *verification;
            return Err(NotClean::Mismatches { mismatches, unreadable });
        }
        if self.kind == AssetType::Gpu {
            let scrub = self.scrub.as_ref().ok_or(NotClean::NoScrub)?;
            scrub.suffices(BETWEEN_TENANTS).map_err(NotClean::Scrub)?;
        }
        match &self.firmware {
            None if self.kind == AssetType::Node => return Err(NotClean::NoFirmwareCheck),
            Some(FirmwareCheck::Differs { what }) => return Err(NotClean::Firmware { what: what.clone() }),
            None | Some(FirmwareCheck::Matches { .. } | FirmwareCheck::NotOurs) => {}
        }
        if self.technique == Technique::KeyDestruction || self.kind == AssetType::Key {
            self.key_is_gone()?;
        }
        self.in_order()
    }

    fn key_is_gone(&self) -> Result<(), NotClean> {
        key_destruction::counts(self.key.as_ref())
    }

    fn exempt(&self, rule: &str, reason: &str, destroy_by: Option<Moment>) -> Result<(), NotClean> {
        let Some(found) = EXEMPTION_RULES.iter().find(|allowed| allowed.name == rule) else {
            return Err(NotClean::NoSuchRule { rule: rule.to_owned() });
        };
        let holds = !self.kind.is_medium()
            && match found.name {
                "backup_beyond_use" => matches!(self.kind, AssetType::Backup | AssetType::Snapshot),
                "holds_no_data" => self.data_class == Some(DataClass::Configuration),
                _ => self.kind != AssetType::Key,
            };
        if !holds {
            return Err(NotClean::RuleDoesNotHold { rule: rule.to_owned() });
        }
        if reason.trim().is_empty() {
            return Err(NotClean::NoReason { rule: rule.to_owned() });
        }
        if found.dated && destroy_by.is_none() {
            return Err(NotClean::NoDay { rule: rule.to_owned() });
        }
        Ok(())
    }

    fn accepted(&self) -> Result<(), NotClean> {
        let Some(validation) = &self.validation else { return Err(NotClean::NotValidated) };
        if validation.decision == ValidationVerdict::Reject {
            return Err(NotClean::Rejected {
                by: validation.actor.name.clone(),
                reason: validation.reason.clone(),
            });
        }
        if validation.actor.name.trim() == self.actor.name.trim() {
            return Err(NotClean::SameActor { actor: self.actor.name.clone() });
        }
        Ok(())
    }

    fn in_order(&self) -> Result<(), NotClean> {
        let Some(ended) = self.ended_at else { return Err(NotClean::NotEnded) };
        let mut last = self.started_at;
        let verified = self.verification.as_ref().map(|verification| verification.at);
        let validated = self.validation.as_ref().map(|validation| validation.at);
        for next in [Some(ended), verified, validated].into_iter().flatten() {
            if next < last {
                return Err(NotClean::OutOfOrder { earlier: next, later: last });
            }
            last = next;
        }
        Ok(())
    }
}

impl Entity for SanitisationRecord {
    const COLLECTION: &'static str = "sanitisation-records";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(self.run, &self.asset)
    }
}

/// Checks that a node may leave its owner (I-6): each of its assets has a record that passes and is later than the end of service.
///
/// # Errors
/// The assets that prevent it, each with the reason. A node without assets is never clean, because no device was checked.
pub fn node_is_clean<'a>(
    assets: impl IntoIterator<Item = &'a Asset>,
    records: &BTreeMap<AssetId, SanitisationRecord>,
    since: Moment,
) -> Result<(), BTreeMap<AssetId, NotClean>> {
    let mut looked = 0;
    let mut dirty = BTreeMap::new();
    for asset in assets {
        looked += 1;
        if let Err(why) = check(asset, records.get(&asset.id)).and_then(|record| record.passes_since(since)) {
            dirty.insert(asset.id.clone(), why);
        }
    }
    if looked == 0 {
        dirty.insert(AssetId("node:".into()), NotClean::NoRecord);
    }
    if dirty.is_empty() { Ok(()) } else { Err(dirty) }
}

/// Returns the record of an asset, if it is about the same device.
pub(crate) fn check<'a>(
    asset: &Asset,
    record: Option<&'a SanitisationRecord>,
) -> Result<&'a SanitisationRecord, NotClean> {
    let record = record.ok_or(NotClean::NoRecord)?;
    if record.asset != asset.id || record.kind != asset.kind || record.tenant != asset.tenant {
        return Err(NotClean::OtherAsset { about: record.asset.clone() });
    }
    match (&asset.serial, &record.device.serial) {
        (Some(inventory), Some(device)) if inventory != device => {
            Err(NotClean::SerialDiffers { inventory: inventory.clone(), device: device.clone() })
        }
        (Some(inventory), None) if asset.kind.is_medium() => {
            Err(NotClean::SerialDiffers { inventory: inventory.clone(), device: "nothing".into() })
        }
        _ => Ok(record),
    }
}
