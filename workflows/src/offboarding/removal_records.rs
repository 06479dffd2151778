//! The records of what an offboarding removes itself: written when it is done, and once more when other eyes have looked.

use super::RemovalTarget;
use crate::{
    destruction::{
        Actor, Asset, AssetId, AssetType, Inventory, KeyFacts, SanitisationOutcome, SanitisationRecord,
        Technique, Tool, Validation, ValidationVerdict, Verification, VerificationMethod,
    },
    platform::{RemovalFate, Removed, Shredded, TenantResource},
    signing::{Digest, Moment},
    tenancy::TenantId,
};
use engine::{Call, Entity, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Writes down what was destroyed, removed or kept, as not yet verified.
///
/// Safe to decide again. Nothing undoes it: it says what happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileRecords {
    /// Whose it was.
    pub tenant: TenantId,
    /// Since when it was being done.
    pub since: Option<Moment>,
    /// Keys that are gone.
    pub shredded: Vec<Shredded>,
    /// What became of the rest.
    pub removed: Vec<Removed>,
    /// What was to be done.
    pub targets: Vec<RemovalTarget>,
}

/// That it was written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsFiled {
    /// When.
    pub at: Moment,
}

impl LedgerAction for FileRecords {
    const NAME: &'static str = "FileRecords";
    type Output = RecordsFiled;

    fn decide(&self, view: &mut View, call: &Call) -> Result<RecordsFiled, Undecided> {
        let inventory = Inventory::read(view, &self.tenant, call.execution)?.unwrap_or_default();
        let now = Moment::from(view.now());
        let plain = |asset: &Asset| SanitisationRecord {
            ended_at: Some(now),
            tool: tool("remove, and look that it is gone"),
            ..SanitisationRecord::begun(
                asset,
                Technique::Nothing,
                actor(call),
                call.execution,
                call.key(),
                self.since.unwrap_or(now),
            )
        };
        let target = |thing: &TenantResource| self.targets.iter().find(|target| target.thing == *thing);
        let mut made = Vec::new();
        for shredded in &self.shredded {
            let Some(target) = target(&shredded.thing) else { continue };
            let Some(asset) = inventory.get(&id(target)) else { continue };
            made.push(of_key(plain(asset), target, shredded));
        }
        for removed in &self.removed {
            let Some(target) = target(&removed.thing) else { continue };
            let Some(asset) = inventory.get(&id(target)) else { continue };
            made.push(of_thing(plain(asset), target, &removed.fate));
        }
        for target in self.targets.iter().filter(|target| target.keep_until.is_some()) {
            let Some(asset) = inventory.get(&id(target)) else { continue };
            let reason = "a retention rule keeps it; it is under a key of the provider".to_owned();
            let result = SanitisationOutcome::NotApplicable {
                rule: "retained_by_law".into(),
                reason,
                destroy_by: target.keep_until,
            };
            made.push(SanitisationRecord { result, ..plain(asset) });
        }
        view.prefetch::<SanitisationRecord>(made.iter().map(Entity::id))?;
        for record in &made {
            view.put(record)?;
        }
        Ok(RecordsFiled { at: now })
    }
}

fn id(target: &RemovalTarget) -> AssetId {
    AssetId::new(target.kind, &target.thing.to_string())
}

fn actor(call: &Call) -> Actor {
    Actor::program(format!("offboarding {}", call.execution))
}

fn tool(command: &str) -> Tool {
    Tool { name: "tenure".into(), version: env!("CARGO_PKG_VERSION").into(), command: command.into() }
}

fn of_key(plain: SanitisationRecord, target: &RemovalTarget, shredded: &Shredded) -> SanitisationRecord {
    let until = target.revivable_until.clone().and_then(|until| Moment::try_from(until).ok());
    let facts = KeyFacts {
        exportable: !target.safe,
        backup_allowed: !target.safe,
        observed_absent: true,
        decrypt_fails: shredded.decrypt_fails,
        snapshots_until: until,
    };
    let evidence =
        BTreeMap::from([("decrypt probe".into(), Digest::from_content("transcript", &shredded.transcript))]);
    // A volume's key can be copied with its header, so its record claims no more than what was done to the volume.
    let (technique, key, command) = if target.kind == AssetType::Key {
        (Technique::KeyDestruction, Some(facts), "delete the key and its copies, look, decrypt")
    } else {
        (Technique::LuksErase, None, "erase every key slot, look, open")
    };
    let tool = match &shredded.tool {
        Some(used) => {
            Tool { name: used.name.clone(), version: used.version.clone(), command: command.into() }
        }
        None => tool(command),
    };
    SanitisationRecord {
        technique,
        tool,
        key,
        result: SanitisationOutcome::SanitisedUnverified,
        evidence,
        ..plain
    }
}

fn of_thing(plain: SanitisationRecord, target: &RemovalTarget, fate: &RemovalFate) -> SanitisationRecord {
    let technique = match target.kind {
        AssetType::Bucket => Technique::DeleteAllVersions,
        AssetType::Identity | AssetType::ClusterKey => Technique::Revoke,
        AssetType::Queue
        | AssetType::Namespace
        | AssetType::Account
        | AssetType::Dns
        | AssetType::Ip
        | AssetType::FabricKey => Technique::Remove,
        AssetType::Node
        | AssetType::Gpu
        | AssetType::Nvme
        | AssetType::Nic
        | AssetType::Pv
        | AssetType::Filesystem
        | AssetType::Snapshot
        | AssetType::Backup
        | AssetType::RegistryRepo
        | AssetType::Model
        | AssetType::Secret
        | AssetType::Key
        | AssetType::LogStream => Technique::Delete,
    };
    let result = match fate {
        RemovalFate::Gone => SanitisationOutcome::SanitisedUnverified,
        RemovalFate::Kept { until, why } => {
            let destroy_by = Moment::try_from(until.clone()).ok();
            match target.kind {
                AssetType::Backup | AssetType::Snapshot if destroy_by.is_some() => {
                    SanitisationOutcome::NotApplicable {
                        rule: "backup_beyond_use".into(),
                        reason: why.clone(),
                        destroy_by,
                    }
                }
                _ => SanitisationOutcome::Failed { reason: format!("{why} {until}; its key is destroyed") },
            }
        }
    };
    SanitisationRecord { technique, result, ..plain }
}

/// Writes down that other eyes looked and found nothing, and that this is accepted: on records that await it.
///
/// A record that says something else, such as that the thing is kept, stays as it is. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ValidateRecords {
    /// Whose it was.
    pub tenant: TenantId,
    /// What was looked for and not found.
    pub things: Vec<(AssetType, TenantResource)>,
}

impl LedgerAction for ValidateRecords {
    const NAME: &'static str = "ValidateRecords";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let now = Moment::from(view.now());
        let ids = self.things.iter().map(|(kind, thing)| AssetId::new(*kind, &thing.to_string()));
        let keys: Vec<String> = ids.map(|id| SanitisationRecord::key(call.execution, &id)).collect();
        view.prefetch::<SanitisationRecord>(keys.clone())?;
        for key in keys {
            let record = view.get::<SanitisationRecord>(&key)?;
            let Some(record) =
                record.filter(|record| record.result == SanitisationOutcome::SanitisedUnverified)
            else {
                continue;
            };
            let method = match record.technique {
                Technique::KeyDestruction | Technique::LuksErase => VerificationMethod::DecryptProbe,
                _ => VerificationMethod::ObservedAbsent,
            };
            let verification = Verification {
                method,
                seed: None,
                checked: 1,
                mismatches: 0,
                unreadable: 0,
                tool: tool("look with the verifier's credentials"),
                actor: Actor::program("tenure verifier"),
                at: now,
            };
            let validation = Validation {
                decision: ValidationVerdict::Accept,
                actor: Actor::program("tenure validation by policy"),
                at: now,
                reason: "looked for with other credentials, and not found".into(),
            };
            view.put(&SanitisationRecord {
                verification: Some(verification),
                validation: Some(validation),
                result: SanitisationOutcome::SanitisedVerified,
                ..record
            })?;
        }
        Ok(())
    }
}
