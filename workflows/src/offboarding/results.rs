//! Stores action results of an offboarding, and derives actions from the approved inventory.

use super::{
    FileRecords, LeavingCheck, Offboarding, OffboardingTerms, RecordsFiled, RemovalTarget, TakeInventory,
    TakenInventory, ValidateRecords, assets,
};
use crate::{
    destruction::{
        AssetType, Look, Pivot, SKIP,
        certificate::{CertificateKind, KeepCertificate, SignCertificate},
    },
    offboarding::node_sanitisation::NodeSanitisation,
    platform::{
        AccessMode, CheckRewrap, ObserveAbsence, ReadDevices, RemovalFate, RemoveThing, ResourceAdmission,
        ReturnNode, RewrapThing, SYSTEMS, SetAdmission, ShredKey, TenantResource, VerifyAbsent,
        VerifyNothingLeft,
    },
    policy::ApprovalGate,
    signing::Digest,
    tenancy::{NodeId, OwnerEpoch},
};
use engine::{ChildEnd, DAY, HOUR, MadeRepair, Seat};
use std::{collections::BTreeMap, time::Duration};
use store::ExecutionId;

/// The number of nodes that a step works on at once. It is the engine's default.
pub(super) const NODES_AT_ONCE: usize = 16;

/// The name of the provider's key for retained data.
const ARCHIVE_KEY: &str = "provider-archive";

/// Returns the conditions that keep a node from being clean. `None` for a clean node.
pub(super) fn missing(node: &NodeSanitisation) -> Option<String> {
    match &node.verdict {
        Some(verdict) if verdict.dirty.is_empty() => None,
        Some(verdict) => {
            let all: Vec<_> = verdict.dirty.iter().map(|(asset, why)| format!("{asset}: {why}")).collect();
            Some(all.join("; "))
        }
        None => Some("its sanitisation ended without a record".into()),
    }
}

impl Offboarding {
    pub(super) fn checked(&mut self, checked: LeavingCheck) {
        self.leaver = Some(checked.leaver);
        self.terms = Some(checked.terms);
        self.remaining = checked.remaining;
    }

    pub(super) fn record_inventory(&mut self, taken: TakenInventory) {
        self.note_changes(&taken.targets);
        self.inventory = Some(taken.digest);
        self.assets = taken.assets;
        self.targets = taken.targets;
        self.targets
            .sort_by(|a, b| (assets::rank(&a.thing), &a.thing).cmp(&(assets::rank(&b.thing), &b.thing)));
        self.seen.clear();
        self.devices.clear();
    }

    pub(super) fn pivoted(&mut self, pivot: Pivot) {
        self.run = Some(pivot.run);
        self.since = Some(pivot.at);
    }

    pub(super) fn filed(&mut self, filed: RecordsFiled) {
        self.shredded.clear();
        self.verified.clear();
        let kept = self.removed.drain(..).filter(|removed| removed.fate != RemovalFate::Gone);
        self.kept.extend(kept.map(|removed| removed.thing));
        self.since = Some(filed.at);
    }

    pub(super) fn sanitised(&mut self, node: ChildEnd<(NodeId, Option<String>)>) {
        match node.data {
            (id, None) => self.clean.push(id),
            (id, Some(missing)) => drop(self.quarantined.insert(id, missing)),
        }
    }

    fn term<T>(&self, of: impl Fn(&OffboardingTerms) -> T, none: T) -> T {
        self.terms.as_ref().map_or(none, of)
    }

    pub(super) fn certificate_kept(&self) -> Option<Duration> {
        self.terms.as_ref().and_then(|terms| terms.certificate_kept)
    }

    pub(super) fn offboard_gate(&self) -> ApprovalGate {
        let none = ApprovalGate::plain(5 * DAY, vec![Seat::new("platform_ops", 1)]);
        self.term(|terms| terms.offboard.clone(), none)
    }

    pub(super) fn destroy_gate(&self) -> ApprovalGate {
        let none = ApprovalGate::plain(5 * DAY, vec![Seat::new("compliance", 1), Seat::new("security", 1)]);
        self.term(|terms| terms.destroy.clone(), none)
    }

    pub(super) fn extension(&self) -> Duration {
        self.term(|terms| terms.extension, 10 * DAY)
    }

    pub(super) fn drain(&self) -> Duration {
        self.term(|terms| terms.demands.drain, HOUR)
    }

    pub(super) fn at_once(&self) -> usize {
        self.term(|terms| usize::try_from(terms.at_once).unwrap_or(8), 8)
    }

    /// Returns the timeout of a step over all nodes, if `round` is sufficient for the nodes that run at once.
    pub(super) fn for_nodes(&self, round: Duration, at_once: usize) -> Duration {
        let nodes = self.leaver.as_ref().map_or(0, |leaver| leaver.nodes.len());
        let rounds = nodes.div_ceil(at_once.max(1)).max(1);
        round.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    /// Returns the entry points that existed when they were read.
    pub(super) fn open_doors(&self) -> impl Iterator<Item = TenantResource> {
        self.doors.iter().filter(|door| door.admits.is_some()).map(|door| door.thing.clone())
    }

    pub(super) fn settings(&self, admits: AccessMode) -> Vec<SetAdmission> {
        let tenant = self.tenant.to_string();
        self.open_doors().map(|thing| SetAdmission { thing, tenant: tenant.clone(), admits }).collect()
    }

    /// Returns the setting that restores an entry point to its mode before the freeze.
    pub(super) fn before(&self, setting: &SetAdmission) -> SetAdmission {
        let door = self.doors.iter().find(|door: &&ResourceAdmission| door.thing == setting.thing);
        let admits = door.and_then(|door| door.admits).unwrap_or(AccessMode::All);
        SetAdmission { admits, ..setting.clone() }
    }

    /// Returns the setting for the freeze. An entry point that was more restricted keeps its mode.
    pub(super) fn frozen(&self, setting: &SetAdmission) -> SetAdmission {
        let before = self.before(setting);
        SetAdmission { admits: before.admits.max(AccessMode::ReadOnly), ..before }
    }

    pub(super) fn readings(&self) -> Vec<ReadDevices> {
        let of = |leaver: &super::LeavingTenant| {
            let reading = |(node, (_, gpus)): (&NodeId, &(OwnerEpoch, u64))| ReadDevices {
                cluster: leaver.cluster.to_string(),
                node: node.to_string(),
                gpus: *gpus,
            };
            leaver.nodes.iter().map(reading).collect()
        };
        self.leaver.as_ref().map(of).unwrap_or_default()
    }

    pub(super) fn taking(&self) -> TakeInventory {
        let retention = self.term(|terms| terms.retention.clone(), Vec::new());
        TakeInventory {
            leaver: self.leaver.clone(),
            seen: self.seen.clone(),
            devices: self.devices.clone(),
            retention,
            remaining: self.remaining.clone(),
        }
    }

    pub(super) fn approved(&self) -> Digest {
        self.inventory.clone().unwrap_or_else(|| Digest(String::new()))
    }

    fn targets(&self, wanted: impl Fn(&RemovalTarget) -> bool) -> impl Iterator<Item = &RemovalTarget> {
        self.targets.iter().filter(move |target| wanted(target))
    }

    pub(super) fn rewraps(&self) -> Vec<RewrapThing> {
        let kept = self.targets(|target| target.keep_until.is_some());
        let tenant = self.tenant.to_string();
        kept.map(|target| RewrapThing {
            thing: target.thing.clone(),
            tenant: tenant.clone(),
            key: ARCHIVE_KEY.into(),
        })
        .collect()
    }

    /// Returns the dry runs for all resources that must be re-encrypted first.
    pub(super) fn rewrap_questions(&self) -> Vec<CheckRewrap> {
        let tenant = self.tenant.to_string();
        let question = |target: &RemovalTarget| {
            Some(CheckRewrap {
                thing: target.thing.clone(),
                tenant: tenant.clone(),
                key: ARCHIVE_KEY.into(),
                until: target.keep_until?.to_string(),
            })
        };
        self.targets.iter().filter_map(question).collect()
    }

    pub(super) fn shreds(&self) -> Vec<ShredKey> {
        let kept = || {
            let kept = self.targets(|target| target.keep_until.is_some());
            kept.map(|target| target.thing.clone()).collect()
        };
        let goes = |target: &RemovalTarget| {
            assets::is_shredded(target.kind, &target.thing) && !self.is_spared(target)
        };
        let keys = self.targets(goes);
        let tenant = self.tenant.to_string();
        keys.map(|target| ShredKey {
            thing: target.thing.clone(),
            tenant: tenant.clone(),
            uid: target.uid.clone(),
            // A volume's key encrypts no data that could be re-encrypted.
            kept: if target.kind == AssetType::Key { kept() } else { Vec::new() },
        })
        .collect()
    }

    fn removal(&self, target: &RemovalTarget) -> RemoveThing {
        let tenant = self.tenant.to_string();
        RemoveThing { thing: target.thing.clone(), tenant, uid: target.uid.clone() }
    }

    pub(super) fn deletions(&self) -> Vec<RemoveThing> {
        let kept = |target: &RemovalTarget| target.keep_until.is_some() || self.kept.contains(&target.thing);
        let shredded = |target: &RemovalTarget| assets::is_shredded(target.kind, &target.thing);
        let data =
            |target: &RemovalTarget| assets::holds_data(target.kind) && !shredded(target) && !kept(target);
        self.targets(data).map(|target| self.removal(target)).collect()
    }

    pub(super) fn dismantlings(&self) -> Vec<RemoveThing> {
        let rest = |target: &RemovalTarget| !assets::holds_data(target.kind) && target.kind != AssetType::Key;
        self.targets(rest).map(|target| self.removal(target)).collect()
    }

    pub(super) fn filing(&self) -> FileRecords {
        FileRecords {
            tenant: self.tenant.clone(),
            since: self.since,
            shredded: self.shredded.clone(),
            removed: self.removed.clone(),
            targets: self.targets.clone(),
            repairs: self.repairs.clone(),
            spared: self.spared(),
            ways_back: self.ways_back.clone(),
            kept_under: self.kept_under.clone(),
        }
    }

    /// Returns the removed assets with data, or those without data.
    fn removed_targets(&self, data: bool) -> impl Iterator<Item = &RemovalTarget> {
        let of = move |target: &RemovalTarget| {
            (assets::holds_data(target.kind) || target.kind == AssetType::Key) == data
                && target.keep_until.is_none()
                && !self.kept.contains(&target.thing)
                && !self.is_spared(target)
        };
        self.targets(of)
    }

    pub(super) fn verification(&self) -> VerifyAbsent {
        VerifyAbsent { things: self.removed_targets(true).map(|target| target.thing.clone()).collect() }
    }

    /// Returns the observation of each resource after an incomplete verification was accepted. At the end it includes resources with data, because
    /// the last verification may have found them again.
    pub(super) fn observation(&self, data: bool) -> ObserveAbsence {
        let held = self.removed_targets(false).filter(|_| !data);
        let things = self.removed_targets(true).chain(held).map(|target| target.thing.clone());
        ObserveAbsence { things: things.collect() }
    }

    /// Stores a repair. A skipped step invalidates the results of earlier verifications.
    pub(super) fn repaired(&mut self, repair: MadeRepair) {
        if repair.kind == SKIP {
            self.verified.clear();
        }
        self.repairs.push(repair);
    }

    /// Clears the verification, because it counts only for the records that it was made for.
    pub(super) fn validated(&mut self, (): ()) {
        self.verified.clear();
    }

    /// Returns the last verification: no resource of the tenant exists except retained ones and nodes.
    pub(super) fn last_look(&self) -> VerifyNothingLeft {
        let retained = self.targets(|target| target.keep_until.is_some()).map(|target| target.thing.clone());
        let spared = self.spared().into_iter().map(|(thing, _)| thing);
        let nodes = self.leaver.iter().flat_map(|leaver| {
            let node = |node: &NodeId| {
                TenantResource::new("kubernetes", leaver.cluster.as_str(), "Node", node.as_str())
            };
            leaver.nodes.keys().map(node).collect::<Vec<_>>()
        });
        let remains = self.remains.iter().map(|remaining| remaining.thing.clone());
        VerifyNothingLeft {
            tenant: self.tenant.to_string(),
            systems: SYSTEMS.map(str::to_owned).to_vec(),
            allowed: self
                .kept
                .iter()
                .cloned()
                .chain(retained)
                .chain(nodes)
                .chain(remains)
                .chain(spared)
                .chain(self.kept_before())
                .collect(),
            removed: self.dismantled_places(),
        }
    }

    /// Returns one dismantled resource of each place.
    fn dismantled_places(&self) -> Vec<TenantResource> {
        let mut places = BTreeMap::new();
        for target in self.removed_targets(false) {
            let place = (target.thing.system.clone(), target.thing.place.clone());
            places.entry(place).or_insert_with(|| target.thing.clone());
        }
        places.into_values().collect()
    }

    pub(super) fn validation(&self, data: bool) -> ValidateRecords {
        let named = |target: &RemovalTarget| (target.kind, target.thing.clone());
        let remains =
            |target: &&RemovalTarget| self.remains.iter().any(|remaining| remaining.thing == target.thing);
        ValidateRecords {
            tenant: self.tenant.clone(),
            things: self.removed_targets(data).map(named).collect(),
            verified: self.verified.clone(),
            look: self.look.unwrap_or(if data { Look::Absent } else { Look::NothingLeft }),
            remains: self.remains.clone(),
            found_again: self.removed_targets(true).filter(remains).map(named).collect(),
            kept: self.targets(|target| self.kept.contains(&target.thing)).map(named).collect(),
            repairs: self.repairs.clone(),
        }
    }

    pub(super) fn sanitisations(&self) -> Vec<NodeSanitisation> {
        let (Some(leaver), Some(terms)) = (&self.leaver, &self.terms) else { return Vec::new() };
        let run = self.run.unwrap_or_else(|| ExecutionId::from_bytes([0; 16]));
        let of = |(node, (epoch, gpus)): (&NodeId, &(OwnerEpoch, u64))| {
            NodeSanitisation::new(leaver, &terms.demands, run, node, *epoch, *gpus)
        };
        leaver.nodes.iter().map(of).collect()
    }

    pub(super) fn returns(&self) -> Vec<ReturnNode> {
        let Some(leaver) = &self.leaver else { return Vec::new() };
        let of = |node: &NodeId| {
            let (epoch, _) = leaver.nodes.get(node)?;
            Some(ReturnNode {
                cluster: leaver.cluster.to_string(),
                node: node.to_string(),
                tenant: self.tenant.to_string(),
                owner_epoch: epoch.0,
            })
        };
        self.clean.iter().filter_map(of).collect()
    }

    /// Returns true if the assembled certificate has exceptions.
    pub(super) fn excepted(&self) -> bool {
        self.assembled.as_ref().is_some_and(|assembled| assembled.kind == CertificateKind::WithExceptions)
    }

    pub(super) fn signing(&self) -> SignCertificate {
        let cover = self.assembled.as_ref().map(|assembled| assembled.cover.clone());
        SignCertificate { cover: cover.unwrap_or_default() }
    }

    pub(super) fn certificate(&self) -> Vec<KeepCertificate> {
        let kept = |signed: &crate::destruction::certificate::CertificateSignature| KeepCertificate {
            signature: signed.signature.clone(),
            public_key: signed.public_key.clone(),
        };
        self.signed.iter().map(kept).collect()
    }
}
