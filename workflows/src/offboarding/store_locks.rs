//! Data that stores keep under a legal hold or an object lock. Approvers see them in the plan, and a key of the tenant that may encrypt such data is
//! not destroyed.
//!
//! Invariant: while a store locks any data of the tenant, every key of the tenant stays. Only the store knows the key of each object.

use super::{Offboarding, RemovalTarget};
use crate::{
    destruction::AssetType,
    platform::{ObservedResource, SurveyTenant, TenantResource, TenantSurvey, UNTIL_LIFTED},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Objects that their store refuses to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreLock {
    /// The number of objects.
    pub objects: u64,
    /// The number of objects under a legal hold, which has no end.
    #[serde(default)]
    pub legal_holds: u64,
    /// The end of the last lock, if it has one.
    pub until: Option<String>,
}

impl StoreLock {
    /// Returns the lock of a resource, as the store reports it. `None` if no object is locked.
    #[must_use]
    pub fn of(seen: &ObservedResource) -> Option<Self> {
        let objects = seen.number("locked");
        let until = seen.text("locked_until").filter(|until| *until != UNTIL_LIFTED);
        let legal_holds = seen.number("legal_holds");
        (objects > 0).then(|| Self { objects, legal_holds, until: until.map(str::to_owned) })
    }
}

impl std::fmt::Display for StoreLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} objects are locked in their store", self.objects)?;
        if self.legal_holds > 0 {
            write!(f, ", {} of them under a legal hold until it is lifted", self.legal_holds)?;
        }
        match &self.until {
            Some(until) => write!(f, ", the last lock until {until}"),
            None => Ok(()),
        }
    }
}

impl Offboarding {
    /// Returns the locks by resource: the approved ones and the ones read before the first key is destroyed.
    fn locks(&self) -> BTreeMap<&TenantResource, &StoreLock> {
        let planned = self.targets.iter().filter_map(|target| Some((&target.thing, target.locked.as_ref()?)));
        planned.chain(self.locked_since.iter().map(|(thing, lock)| (thing, lock))).collect()
    }

    /// Returns true for a key that stays because data that it may encrypt are locked.
    pub(super) fn is_spared(&self, target: &RemovalTarget) -> bool {
        target.kind == AssetType::Key && !self.locks().is_empty()
    }

    /// Returns true for a key that stays according to the plan.
    pub(super) fn is_to_stay(&self, target: &RemovalTarget) -> bool {
        target.kind == AssetType::Key && self.targets.iter().any(|other| other.locked.is_some())
    }

    /// Returns the keys that stay, each with the reason for its record.
    pub(super) fn spared(&self) -> Vec<(TenantResource, String)> {
        let locks = self.locks();
        let still = |thing: &TenantResource| self.locked_since.iter().any(|(locked, _)| locked == thing);
        let named = locks.iter().take(10).map(|(thing, lock)| {
            let ended =
                if still(thing) { "" } else { "; so it was when people agreed, and later not any more" };
            format!("{thing}: {lock}{ended}")
        });
        let named: Vec<String> = named.collect();
        let more = locks.len().saturating_sub(named.len());
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let all = locks.keys().all(|thing| still(thing));
        let when = if all { "is locked" } else { "is locked, or was when people agreed" };
        let reason =
            format!("the key is not destroyed, since what it may encrypt {when}: {}{more}", named.join("; "));
        let spared = self.targets.iter().filter(|target| self.is_spared(target));
        spared.map(|target| (target.thing.clone(), reason.clone())).collect()
    }

    /// Returns a survey of every system. New locks may exist outside the inventory, and keys are read before their destruction.
    pub(super) fn lock_survey(&self) -> SurveyTenant {
        SurveyTenant { compared: false, ..self.survey() }
    }

    /// Stores the current locks: a lock that was created after the approval also spares the keys. Also stores the ways to recover each key, and the
    /// encryption keys of retained resources. They cannot be read after a key is destroyed.
    pub(super) fn relocked(&mut self, survey: TenantSurvey) {
        let seen = survey.seen;
        let found = |target: &RemovalTarget| seen.iter().find(|seen| seen.thing == target.thing);
        let way = |target: &RemovalTarget| {
            let key = found(target).filter(|key| target.kind == AssetType::Key && key.uid == target.uid)?;
            Some((target.thing.clone(), key.key_safety().can_come_back))
        };
        self.ways_back = self.targets.iter().filter_map(way).collect();
        let under = |target: &RemovalTarget| {
            target.keep_until?;
            Some((target.thing.clone(), found(target)?.encrypted_by()))
        };
        self.kept_under = self.targets.iter().filter_map(under).collect();
        let locked = seen.into_iter().filter_map(|seen| Some((seen.thing.clone(), StoreLock::of(&seen)?)));
        self.locked_since = locked.collect();
    }

    /// Returns the locks in sentences for approvers.
    pub(super) fn lock_sentences(&self) -> Vec<String> {
        let kept = self.targets.iter().filter_map(|target| {
            let lock = target.locked.as_ref()?;
            Some(format!("{}: {lock}; they stay", target.thing))
        });
        let keys = self.targets.iter().filter(|target| self.is_to_stay(target));
        let keys = keys.map(|target| {
            format!(
                "{}: the key is not destroyed, since what is locked may be encrypted with it",
                target.thing
            )
        });
        kept.chain(keys).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{offboarding::examples, platform::SYSTEMS};
    use engine::Workflow as _;
    use serde_json::json;

    fn bucket(spec: serde_json::Value) -> ObservedResource {
        ObservedResource {
            thing: TenantResource::new("objects", "eu", "Bucket", "t-example--eu"),
            uid: "uid".into(),
            tenant: "example".into(),
            spec,
            terminating: false,
        }
    }

    fn found(seen: Vec<ObservedResource>) -> TenantSurvey {
        TenantSurvey { seen, ..TenantSurvey::default() }
    }

    /// Returns an offboarding with an inventory, in which its bucket has these properties.
    fn offboarding(spec: serde_json::Value) -> Offboarding {
        let mut all = examples::all();
        let mut known = all.remove(0);
        let lock = StoreLock::of(&bucket(spec));
        for target in known.targets.iter_mut().filter(|target| target.kind == AssetType::Bucket) {
            target.locked.clone_from(&lock);
        }
        known
    }

    #[test]
    fn a_known_lock_is_in_the_plan_and_keeps_every_key() {
        let held = json!({ "locked": 2, "legal_holds": 1, "locked_until": UNTIL_LIFTED });
        let locked = json!({ "locked": 2, "locked_until": "2031-05-01T00:00:00Z" });
        for (spec, says) in [(held, "under a legal hold until it is lifted"), (locked, "until 2031-05-01")] {
            let plan = offboarding(spec.clone()).plan().decides;
            assert!(plan.to_string().contains(says), "{plan}");
            assert!(plan.to_string().contains("the key is not destroyed"), "{plan}");
            let keys = |me: &Offboarding| me.shreds().iter().filter(|key| key.thing.kind == "Key").count();
            assert_eq!((keys(&offboarding(spec.clone())), keys(&offboarding(json!({})))), (0, 1));

            // A lock that was created after the approval.
            let mut late = offboarding(json!({}));
            let agreed = late.plan();
            late.relocked(found(vec![bucket(spec)]));
            assert_eq!((keys(&late), late.plan().decides), (0, agreed.decides));
            assert!(late.spared()[0].1.contains("the key is not destroyed"));
        }
    }

    #[test]
    fn a_lock_that_ended_since_the_approval_is_reported_and_the_plan_stays_consistent() {
        let spec = json!({ "locked": 2, "locked_until": "2031-05-01T00:00:00Z" });
        let mut ended = offboarding(spec.clone());
        for key in ended.targets.iter_mut().filter(|target| target.kind == AssetType::Key) {
            key.can_come_back = [crate::platform::WayBack::Imported].into();
        }
        let destroys = ended.plan().decides["destroys"].clone();
        assert_eq!(destroys.get("exceptions"), None, "{destroys}");
        assert!(destroys["things"].to_string().contains("what is locked may be encrypted with it"));

        let mut stands = ended.clone();
        stands.relocked(found(vec![bucket(spec)]));
        ended.relocked(found(Vec::new()));
        assert!(!stands.spared()[0].1.contains("when people agreed"), "{:?}", stands.spared());
        assert!(ended.spared()[0].1.contains("when people agreed"), "{:?}", ended.spared());
    }

    #[test]
    fn locks_are_searched_even_if_the_inventory_is_empty() {
        let mut bare = offboarding(json!({}));
        bare.targets.clear();
        assert_eq!(bare.lock_survey().systems, SYSTEMS);
        bare.relocked(found(vec![bucket(json!({ "locked": 1 }))]));
        assert_eq!(bare.locked_since.len(), 1);
    }

    #[test]
    fn locks_read_before_the_first_key_destruction_are_kept() {
        let mut known = offboarding(json!({}));
        let read = |target: &RemovalTarget| ObservedResource {
            thing: target.thing.clone(),
            uid: target.uid.clone(),
            spec: json!({ "can_come_back": ["backed_up"], "key": "provider-archive" }),
            ..bucket(json!({}))
        };
        let seen: Vec<_> = known.targets.iter().map(read).collect();
        known.relocked(found(seen));
        let filing = known.filing();
        let ways: Vec<_> = filing.ways_back.into_values().flatten().collect();
        assert_eq!(ways, [crate::platform::WayBack::BackedUp]);
        let under: Vec<_> = filing.kept_under.into_values().collect();
        assert_eq!(under, [crate::platform::EncryptedBy::Key("provider-archive".into())]);
    }

    #[test]
    fn an_unlocked_store_does_not_change_the_plan() {
        let plan = offboarding(json!({ "versions": 3 })).plan().decides.to_string();
        assert!(!plan.contains("locked"), "{plan}");
    }
}
