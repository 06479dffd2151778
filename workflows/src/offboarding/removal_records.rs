//! The records of removed resources. They are written after the removal, and updated after the verification.

mod validation;

pub use validation::ValidateRecords;
pub(super) use validation::verifier;

use super::RemovalTarget;
use crate::{
    destruction::{
        Actor, Aspect, Asset, AssetId, AssetType, Inventory, KeyFacts, ObservationRef, Observations,
        SanitisationOutcome, SanitisationRecord, Technique, Tool,
        key_destruction::{self, DestroyedKeys},
        statement_about,
    },
    platform::{
        EncryptedBy, RemovalFate, RemoveThing, Removed, ShredKey, Shredded, SurveyTenant, TenantResource,
        UNTIL_LIFTED, WayBack,
    },
    signing::{Digest, Moment},
    tenancy::TenantId,
};
use engine::{Call, Entity, LedgerAction, MadeRepair, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Records that resources were destroyed, removed or kept, as not yet verified.
///
/// Safe to decide again. It has no undo, because a record describes a past event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileRecords {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The start of the work.
    pub since: Option<Moment>,
    /// Destroyed keys.
    pub shredded: Vec<Shredded>,
    /// The outcomes of the other resources.
    pub removed: Vec<Removed>,
    /// The treatment of each asset in the plan.
    pub targets: Vec<RemovalTarget>,
    /// The repairs made by operators so far.
    #[serde(default)]
    pub repairs: Vec<MadeRepair>,
    /// Keys that stay because data that they may encrypt are locked in their store, each with the reason.
    #[serde(default)]
    pub spared: Vec<(TenantResource, String)>,
    /// Every way to recover each key, as read just before the first key was destroyed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ways_back: BTreeMap<TenantResource, BTreeSet<WayBack>>,
    /// The encryption key of each retained resource, as read at that time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_under: BTreeMap<TenantResource, EncryptedBy>,
}

/// Result of writing the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsFiled {
    /// The time of writing.
    pub at: Moment,
}

impl LedgerAction for FileRecords {
    const NAME: &'static str = "FileRecords";
    type Output = RecordsFiled;

    fn decide(&self, view: &mut View, call: &Call) -> Result<RecordsFiled, Undecided> {
        let inventory = Inventory::read(view, &self.tenant, call.execution)?.unwrap_or_default();
        let now = Moment::from(view.now());
        let plain = |asset: &Asset| SanitisationRecord {
            // Another server may have started the work with a clock that was ahead.
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
            let before = self.ways_back.get(&shredded.thing);
            made.push(attributed(of_key(plain(asset), target, shredded, before), target));
        }
        let destroyed = self.destroyed_keys(view, call, &made)?;
        for removed in &self.removed {
            let Some(target) = target(&removed.thing) else { continue };
            let Some(asset) = inventory.get(&id(target)) else { continue };
            let mut record = of_thing(plain(asset), target, removed, &destroyed);
            self.add_key(view, call, &made, removed, &mut record)?;
            made.push(attributed(record, target));
        }
        for (thing, reason) in &self.spared {
            let Some(target) = target(thing) else { continue };
            let Some(asset) = inventory.get(&id(target)) else { continue };
            let result = SanitisationOutcome::Failed { reason: reason.clone() };
            let seen = ObservationRef::new::<SurveyTenant>(&(thing.clone(), reason.clone()), &self.tenant);
            let observed = Observations::from([(Aspect::Done, seen)]);
            made.push(SanitisationRecord { result, tool: tool("leave the key"), observed, ..plain(asset) });
        }
        for (asset, target, result, seen) in self.retained(view, call, &inventory, &destroyed)? {
            let tool = tool("put it under a key of the provider, look under which key it is");
            let observed = seen.map(|seen| (Aspect::Kept, seen)).into_iter().collect();
            made.push(attributed(SanitisationRecord { result, tool, observed, ..plain(asset) }, target));
        }
        view.prefetch::<SanitisationRecord>(made.iter().map(Entity::id))?;
        for record in &made {
            view.put(record)?;
        }
        Ok(RecordsFiled { at: now })
    }
}

/// A retained resource, its outcome, and the observation of its encryption key.
type Retained<'a> = (&'a Asset, &'a RemovalTarget, SanitisationOutcome, Option<ObservationRef>);

impl FileRecords {
    /// Returns the outcomes of retained resources that must be recorded now.
    fn retained<'a>(
        &'a self,
        view: &mut View,
        call: &Call,
        inventory: &'a Inventory,
        destroyed: &DestroyedKeys,
    ) -> Result<Vec<Retained<'a>>, Undecided> {
        // A statement about a key contains no observations.
        let observed = self
            .shredded
            .iter()
            .filter(|shredded| statement_about(&self.repairs, call.execution, &shredded.thing).is_none());
        let kept: BTreeMap<_, _> = observed
            .flat_map(|shredded| shredded.kept.iter().map(move |(thing, by)| (thing, (by, shredded))))
            .collect();
        let spared: BTreeSet<_> = self.spared.iter().map(|(thing, _)| thing.name.clone()).collect();
        let mut retained = Vec::new();
        for target in self.targets.iter().filter(|target| target.keep_until.is_some()) {
            let Some(asset) = inventory.get(&id(target)) else { continue };
            // The key of a retained resource is read when keys are destroyed. A record from that time is kept.
            let known =
                view.get::<SanitisationRecord>(&SanitisationRecord::key(call.execution, &asset.id))?;
            if self.shredded.is_empty() && known.is_some() {
                continue;
            }
            let (seen, answer) = match (kept.get(&target.thing), self.kept_under.get(&target.thing)) {
                (Some((by, shredded)), _) => {
                    (Some(*by), Some(ObservationRef::new::<ShredKey>(*shredded, &shredded.thing)))
                }
                (None, Some(by)) => (Some(by), Some(ObservationRef::new::<SurveyTenant>(by, &self.tenant))),
                (None, None) => (None, None),
            };
            retained.push((asset, target, of_kept(target, seen, destroyed, &spared), answer));
        }
        Ok(retained)
    }

    /// Adds the observation of the key's destruction to the record of a backup that is unreadable without it.
    ///
    /// If the key's record names no observation, the backup's record names none either, like all records of that version.
    fn add_key(
        &self,
        view: &mut View,
        call: &Call,
        made: &[SanitisationRecord],
        removed: &Removed,
        record: &mut SanitisationRecord,
    ) -> Result<(), Undecided> {
        let RemovalFate::Kept { encrypted_by: EncryptedBy::Key(name), .. } = &removed.fate else {
            return Ok(());
        };
        if !is_beyond_use(&record.result) {
            return Ok(());
        }
        let mut seen = None;
        let is_key = |target: &&RemovalTarget| target.kind == AssetType::Key && target.thing.name == *name;
        for key in self.targets.iter().filter(is_key).map(id) {
            let of_key = match made.iter().find(|record| record.asset == key) {
                Some(record) => Some(record.clone()),
                None => view.get::<SanitisationRecord>(&SanitisationRecord::key(call.execution, &key))?,
            };
            seen = seen.or(of_key.and_then(|record| record.observed.get(&Aspect::Done).cloned()));
        }
        match seen {
            Some(seen) => drop(record.observed.insert(Aspect::Key, seen)),
            None => record.observed.clear(),
        }
        Ok(())
    }

    /// Returns the tenant's keys by name, without spared ones, each with the facts about its destruction. The facts are `None` without a record.
    fn destroyed_keys(
        &self,
        view: &mut View,
        call: &Call,
        made: &[SanitisationRecord],
    ) -> Result<DestroyedKeys, Undecided> {
        let mut destroyed = DestroyedKeys::new();
        let is_spared = |target: &RemovalTarget| self.spared.iter().any(|(thing, _)| *thing == target.thing);
        let keys = self.targets.iter().filter(|target| target.kind == AssetType::Key && !is_spared(target));
        for target in keys {
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

/// Returns the outcome for a retained resource, from the key that encrypted it when the tenant's keys were destroyed.
fn of_kept(
    target: &RemovalTarget,
    seen: Option<&EncryptedBy>,
    destroyed: &DestroyedKeys,
    spared: &BTreeSet<String>,
) -> SanitisationOutcome {
    match key_destruction::is_kept(seen, destroyed, spared) {
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

/// Returns the record of a destroyed key. `before` is the state that was read just before the first key was destroyed.
fn of_key(
    plain: SanitisationRecord,
    target: &RemovalTarget,
    shredded: &Shredded,
    before: Option<&BTreeSet<WayBack>>,
) -> SanitisationRecord {
    let until = target.revivable_until.clone().and_then(|until| Moment::try_from(until).ok());
    let mut can_come_back: BTreeSet<_> =
        target.can_come_back.union(&shredded.can_come_back).copied().collect();
    match before {
        Some(before) => can_come_back.extend(before),
        None if shredded.seen => {}
        // The key was not read after the approval, so later changes to it are unknown.
        None => can_come_back.extend([WayBack::Unknown]),
    }
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
    // A volume's key can be copied with its header, so the record claims only the treatment of the volume.
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
        observed: Observations::from([(
            Aspect::Done,
            ObservationRef::new::<ShredKey>(shredded, &shredded.thing),
        )]),
        ..plain
    }
}

fn of_thing(
    plain: SanitisationRecord,
    target: &RemovalTarget,
    removed: &Removed,
    destroyed: &DestroyedKeys,
) -> SanitisationRecord {
    let (result, done) = fate_of(target, &removed.fate, destroyed);
    let answer = ObservationRef::new::<RemoveThing>(removed, &removed.thing);
    let observed = Observations::from([(Aspect::Done, answer)]);
    SanitisationRecord { technique: technique(target.kind), result, tool: tool(done), observed, ..plain }
}

/// The name of the rule for a backup that its store keeps and that is unreadable.
const BEYOND_USE: &str = "backup_beyond_use";

fn is_beyond_use(result: &SanitisationOutcome) -> bool {
    matches!(result, SanitisationOutcome::NotApplicable { rule, .. } if rule == BEYOND_USE)
}

/// The end of the reason for retained data that were lost with a key.
fn lost_with(key: &str) -> String {
    format!("it is encrypted with key {key}, which is destroyed")
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

/// Returns the outcome of a removal, with the command.
fn fate_of(
    target: &RemovalTarget,
    fate: &RemovalFate,
    destroyed: &DestroyedKeys,
) -> (SanitisationOutcome, &'static str) {
    let RemovalFate::Kept { until, why, encrypted_by } = fate else {
        return (SanitisationOutcome::SanitisedUnverified, "remove, and look that it is gone");
    };
    // A legal hold has no end, and the date that stores report for it is only a placeholder.
    let no_day = until == UNTIL_LIFTED;
    let destroy_by = Moment::try_from(until.clone()).ok().filter(|_| !no_day);
    let kept = if no_day { why.clone() } else { format!("{why} {until}") };
    let is_copy = matches!(target.kind, AssetType::Backup | AssetType::Snapshot);
    let result = match key_destruction::is_lost(encrypted_by, destroyed) {
        Ok(_) if is_copy && destroy_by.is_some() => {
            SanitisationOutcome::NotApplicable { rule: BEYOND_USE.into(), reason: why.clone(), destroy_by }
        }
        Ok(key) => SanitisationOutcome::Failed { reason: format!("{kept}; {}", lost_with(key)) },
        Err(readable) => SanitisationOutcome::Failed { reason: format!("{kept}; {readable}") },
    };
    (result, "look whether it can be removed")
}
