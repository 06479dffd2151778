//! The records of what an offboarding removes itself: written when it is done, and once more when other eyes have looked.

use super::RemovalTarget;
use crate::{
    destruction::{
        Actor, Asset, AssetId, AssetType, Inventory, KeyFacts, SanitisationOutcome, SanitisationRecord,
        Technique, Tool, Validation, ValidationVerdict, Verification, VerificationMethod,
        key_destruction::{self, DestroyedKeys},
        statement_about,
    },
    platform::{
        EncryptedBy, RemainingThing, RemovalFate, Removed, Shredded, TenantResource, UNTIL_LIFTED,
        VerifiedAs, VerifiedSystems,
    },
    signing::{Digest, Moment},
    tenancy::TenantId,
};
use engine::{Call, Entity, LedgerAction, MadeRepair, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The repairs that people have made so far.
    #[serde(default)]
    pub repairs: Vec<MadeRepair>,
    /// Keys that stay, since what they may encrypt is locked in its store, each with the reason.
    #[serde(default)]
    pub spared: Vec<(TenantResource, String)>,
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
            // Another server may have begun it, whose clock was ahead.
            ended_at: Some(self.since.map_or(now, |since| since.max(now))),
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
        let attributed = |record: SanitisationRecord, target: &RemovalTarget| match statement_about(
            &self.repairs,
            call.execution,
            &target.thing,
        ) {
            Some(repair) => record.stated_by(repair),
            None => record,
        };
        let mut made = Vec::new();
        for shredded in &self.shredded {
            let Some(target) = target(&shredded.thing) else { continue };
            let Some(asset) = inventory.get(&id(target)) else { continue };
            made.push(attributed(of_key(plain(asset), target, shredded), target));
        }
        let destroyed = self.destroyed_keys(view, call, &made)?;
        for removed in &self.removed {
            let Some(target) = target(&removed.thing) else { continue };
            let Some(asset) = inventory.get(&id(target)) else { continue };
            made.push(attributed(of_thing(plain(asset), target, &removed.fate, &destroyed), target));
        }
        for (thing, reason) in &self.spared {
            let Some(target) = target(thing) else { continue };
            let Some(asset) = inventory.get(&id(target)) else { continue };
            let result = SanitisationOutcome::Failed { reason: reason.clone() };
            made.push(SanitisationRecord { result, tool: tool("leave the key"), ..plain(asset) });
        }
        let kept: BTreeMap<_, _> = self.shredded.iter().flat_map(|shredded| &shredded.kept).collect();
        for target in self.targets.iter().filter(|target| target.keep_until.is_some()) {
            let Some(asset) = inventory.get(&id(target)) else { continue };
            // It is looked at when keys are destroyed, and what was written then stands.
            let known =
                view.get::<SanitisationRecord>(&SanitisationRecord::key(call.execution, &asset.id))?;
            if self.shredded.is_empty() && known.is_some() {
                continue;
            }
            let result = of_kept(target, kept.get(&target.thing).copied(), &destroyed);
            let tool = tool("put it under a key of the provider, look under which key it is");
            made.push(attributed(SanitisationRecord { result, tool, ..plain(asset) }, target));
        }
        view.prefetch::<SanitisationRecord>(made.iter().map(Entity::id))?;
        for record in &made {
            view.put(record)?;
        }
        Ok(RecordsFiled { at: now })
    }
}

impl FileRecords {
    /// The tenant's keys by name, each with what its record says of its destruction; none where there is no record.
    fn destroyed_keys(
        &self,
        view: &mut View,
        call: &Call,
        made: &[SanitisationRecord],
    ) -> Result<DestroyedKeys, Undecided> {
        let mut destroyed = DestroyedKeys::new();
        for target in self.targets.iter().filter(|target| target.kind == AssetType::Key) {
            let id = id(target);
            let facts = match made.iter().find(|record| record.asset == id) {
                Some(record) => record.key.clone(),
                None => view
                    .get::<SanitisationRecord>(&SanitisationRecord::key(call.execution, &id))?
                    .and_then(|record| record.key),
            };
            destroyed.insert(target.thing.name.clone(), facts);
        }
        Ok(destroyed)
    }
}

/// How a thing ended that a retention rule keeps, by the key under which it was seen when the tenant's were destroyed.
fn of_kept(
    target: &RemovalTarget,
    seen: Option<&EncryptedBy>,
    destroyed: &DestroyedKeys,
) -> SanitisationOutcome {
    match key_destruction::is_kept(seen, destroyed) {
        Ok(key) => SanitisationOutcome::NotApplicable {
            rule: "retained_by_law".into(),
            reason: format!(
                "a retention rule keeps it; it was seen under key {key}, which is not the tenant's"
            ),
            destroy_by: target.keep_until,
        },
        Err(why) => SanitisationOutcome::Failed { reason: format!("a retention rule keeps it, and {why}") },
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
    let can_come_back: BTreeSet<_> = target.can_come_back.union(&shredded.can_come_back).copied().collect();
    let safe = target.safe && can_come_back.is_empty();
    let facts = KeyFacts {
        exportable: !safe,
        backup_allowed: !safe,
        observed_absent: true,
        decrypt_fails: shredded.decrypt_fails,
        snapshots_until: until,
        can_come_back,
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

fn of_thing(
    plain: SanitisationRecord,
    target: &RemovalTarget,
    fate: &RemovalFate,
    destroyed: &DestroyedKeys,
) -> SanitisationRecord {
    let (result, done) = fate_of(target, fate, destroyed);
    SanitisationRecord { technique: technique(target.kind), result, tool: tool(done), ..plain }
}

fn technique(kind: AssetType) -> Technique {
    match kind {
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
    }
}

/// How the removal of a thing ended, and what was done for it.
fn fate_of(
    target: &RemovalTarget,
    fate: &RemovalFate,
    destroyed: &DestroyedKeys,
) -> (SanitisationOutcome, &'static str) {
    let RemovalFate::Kept { until, why, encrypted_by } = fate else {
        return (SanitisationOutcome::SanitisedUnverified, "remove, and look that it is gone");
    };
    // A legal hold has no day, and what stands in its place is no day either.
    let no_day = until == UNTIL_LIFTED;
    let destroy_by = Moment::try_from(until.clone()).ok().filter(|_| !no_day);
    let kept = if no_day { why.clone() } else { format!("{why} {until}") };
    let is_copy = matches!(target.kind, AssetType::Backup | AssetType::Snapshot);
    let result = match key_destruction::is_lost(encrypted_by, destroyed) {
        Ok(_) if is_copy && destroy_by.is_some() => SanitisationOutcome::NotApplicable {
            rule: "backup_beyond_use".into(),
            reason: why.clone(),
            destroy_by,
        },
        Ok(key) => SanitisationOutcome::Failed {
            reason: format!("{kept}; it is encrypted with key {key}, which is destroyed"),
        },
        Err(readable) => SanitisationOutcome::Failed { reason: format!("{kept}; {readable}") },
    };
    (result, "look whether it can be removed")
}

/// Writes down that it was looked for and not found, by whom, and that this is accepted: on records that await it.
///
/// A record that says something else, such as that the thing is kept, stays as it is; so does one that rests on a statement of a
/// person, and one of a system of which nothing was observed. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ValidateRecords {
    /// Whose it was.
    pub tenant: TenantId,
    /// What was looked for and not found.
    pub things: Vec<(AssetType, TenantResource)>,
    /// With whose credentials, by system, as its backends answered.
    #[serde(default)]
    pub verified: VerifiedSystems,
    /// What was looked for and not seen to be gone.
    #[serde(default)]
    pub remains: Vec<RemainingThing>,
    /// The repairs that people have made so far.
    #[serde(default)]
    pub repairs: Vec<MadeRepair>,
}

impl LedgerAction for ValidateRecords {
    const NAME: &'static str = "ValidateRecords";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let now = Moment::from(view.now());
        let key = |(kind, thing): &(AssetType, TenantResource)| {
            SanitisationRecord::key(call.execution, &AssetId::new(*kind, &thing.to_string()))
        };
        view.prefetch::<SanitisationRecord>(self.things.iter().map(key))?;
        for thing in &self.things {
            let key = key(thing);
            let record = view.get::<SanitisationRecord>(&key)?;
            let Some(record) =
                record.filter(|record| record.result == SanitisationOutcome::SanitisedUnverified)
            else {
                continue;
            };
            if let Some(record) = self.unverified(&record, &thing.1, call) {
                view.put(&record)?;
                continue;
            }
            let Some(verified) = self.verified.get(&thing.1.system).copied() else { continue };
            let (verification, validation) =
                looked_for(&record, verified, record.ended_at.max(Some(now)).unwrap_or(now));
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

impl ValidateRecords {
    /// The record of a thing that was stated to be gone, or not seen to be.
    fn unverified(
        &self,
        record: &SanitisationRecord,
        thing: &TenantResource,
        call: &Call,
    ) -> Option<SanitisationRecord> {
        let repair = statement_about(&self.repairs, call.execution, thing);
        let stated = repair.map(|repair| record.clone().stated_by(repair));
        let remains = self.remains.iter().find(|remaining| remaining.thing == *thing);
        let Some(remaining) = remains else { return stated };
        let result = SanitisationOutcome::Failed { reason: remaining.why.clone() };
        Some(SanitisationRecord { result, ..stated.unwrap_or_else(|| record.clone()) })
    }
}

/// The look that found nothing, and why that is accepted: both say with whose credentials it was made, and no more.
fn looked_for(record: &SanitisationRecord, verified: VerifiedAs, at: Moment) -> (Verification, Validation) {
    // Of a volume no key need be known that could be tried: its transcript says what was.
    let was_decrypted = record.key.as_ref().is_some_and(|key| key.decrypt_fails);
    let method =
        if was_decrypted { VerificationMethod::DecryptProbe } else { VerificationMethod::ObservedAbsent };
    let verification = Verification {
        method,
        seed: None,
        checked: 1,
        mismatches: 0,
        unreadable: 0,
        tool: tool(&format!("look for it {}", verified.phrase())),
        actor: verifier(verified),
        verified_as: Some(verified),
        at,
    };
    let validation = Validation {
        decision: ValidationVerdict::Accept,
        actor: Actor::program("tenure validation by policy"),
        at,
        reason: format!("looked for {}, and not found", verified.phrase()),
    };
    (verification, validation)
}

/// Who looked: a verifier is named only where one did.
pub(super) fn verifier(verified: VerifiedAs) -> Actor {
    Actor::program(match verified {
        VerifiedAs::Verifier => "tenure verifier",
        VerifiedAs::Platform => "tenure, with the platform's own credentials",
        VerifiedAs::Mixed => "tenure, partly with the platform's own credentials",
    })
}
