//! Changes between two inventories: those that an approval does not cover, and all of them, for the next plan.
//!
//! Invariant: [`beyond`] decides both whether a new plan is necessary and whether the tenant keeps changing.

use super::StoredAmount;
use crate::{
    destruction::AssetType,
    offboarding::{Offboarding, RemovalTarget, StoreLock},
    platform::{ObservedResource, TenantResource, WayBack},
};
use std::collections::BTreeSet;

/// The number of plans that approvers see of a tenant that keeps changing. After that, an operator must stop the writes first.
const MOST_PLANS: u32 = 3;

/// The maximum number of changes that a plan lists.
const MOST_LISTED: usize = 50;

/// The facts about one resource that an approval covers.
pub(super) struct CoveredFacts<'a> {
    thing: &'a TenantResource,
    uid: &'a str,
    is_key: bool,
    amount: Option<StoredAmount>,
    lock: Option<StoreLock>,
    store_keeps_until: Option<&'a str>,
    ways_back: BTreeSet<WayBack>,
}

impl<'a> CoveredFacts<'a> {
    pub(super) fn of_target(target: &'a RemovalTarget) -> Self {
        Self {
            thing: &target.thing,
            uid: &target.uid,
            is_key: target.kind == AssetType::Key,
            amount: target.amount.clone(),
            lock: target.locked.clone(),
            store_keeps_until: target.store_keeps_until.as_deref(),
            ways_back: target.can_come_back.clone(),
        }
    }

    pub(super) fn of_resource(seen: &'a ObservedResource) -> Self {
        Self {
            thing: &seen.thing,
            uid: &seen.uid,
            is_key: seen.thing.kind == "Key",
            amount: StoredAmount::of(seen),
            lock: StoreLock::of(seen),
            store_keeps_until: seen.text("kept_until"),
            ways_back: seen.key_safety().can_come_back,
        }
    }

    /// Returns true if the resource was found. A resource that only the records name has no unique id.
    fn was_found(&self) -> bool {
        !self.uid.is_empty()
    }
}

/// Returns the change that an approval of `then` does not cover. A decrease is covered.
pub(super) fn beyond(then: Option<&CoveredFacts<'_>>, now: &CoveredFacts<'_>) -> Option<String> {
    let thing = now.thing;
    let Some(then) = then else { return Some(format!("{thing} did not exist")) };
    if !then.was_found() && now.was_found() {
        return Some(format!("{thing} did not exist"));
    }
    if then.uid != now.uid {
        return Some(format!("{thing} is not the one in the plan"));
    }
    if let (Some(then), Some(now)) = (&then.amount, &now.amount)
        && then.has_grown(now)
    {
        return Some(format!("{thing} has {now}, but had {then}"));
    }
    if let Some(lock) = &now.lock
        && then.lock.as_ref().is_none_or(|then| locks_more(then, lock))
    {
        return Some(format!("{thing}: {lock}"));
    }
    if let Some(until) = now.store_keeps_until
        && then.store_keeps_until < Some(until)
    {
        return Some(format!("{thing}: its store keeps it until {until}"));
    }
    let new = now.ways_back.iter().find(|way| !then.ways_back.contains(way));
    let new = new.filter(|_| then.is_key)?;
    Some(format!("{thing}: {}", new.phrase()))
}

/// Returns any change, also one that an approval covers.
fn change(then: Option<&CoveredFacts<'_>>, now: &CoveredFacts<'_>) -> Option<String> {
    let thing = now.thing;
    if !now.was_found() {
        return then.filter(|then| then.was_found()).map(|_| format!("{thing} is gone"));
    }
    beyond(then, now).or_else(|| {
        let then = then?;
        if let (Some(before), Some(after)) = (&then.amount, &now.amount)
            && before != after
        {
            return Some(format!("{thing} has {after}, but had {before}"));
        }
        (then.lock != now.lock).then(|| match &now.lock {
            Some(lock) => format!("{thing}: {lock}"),
            None => format!("{thing} is no longer locked"),
        })
    })
}

/// Returns true if a lock has more objects, more legal holds, or a later end. A lock that lost its end may last longer.
fn locks_more(then: &StoreLock, now: &StoreLock) -> bool {
    let is_later = match (&then.until, &now.until) {
        (Some(then), Some(now)) => then < now,
        (Some(_), None) | (None, Some(_)) => true,
        (None, None) => false,
    };
    then.objects < now.objects || then.legal_holds < now.legal_holds || is_later
}

fn find<'a>(targets: &'a [RemovalTarget], thing: &TenantResource) -> Option<CoveredFacts<'a>> {
    targets.iter().find(|target| target.thing == *thing).map(CoveredFacts::of_target)
}

/// Returns a sentence for each change from one inventory to the next.
fn all_changes(before: &[RemovalTarget], now: &[RemovalTarget]) -> Vec<String> {
    let changed = now.iter().map(CoveredFacts::of_target);
    let changed = changed.filter_map(|now| change(find(before, now.thing).as_ref(), &now));
    let gone = before.iter().map(CoveredFacts::of_target);
    let gone = gone.filter(|then| then.was_found() && find(now, then.thing).is_none());
    let mut changes: Vec<String> =
        changed.chain(gone.map(|then| format!("{} is gone", then.thing))).collect();
    let more = changes.len().saturating_sub(MOST_LISTED);
    if more > 0 {
        changes.truncate(MOST_LISTED);
        changes.push(format!("and {more} more changes"));
    }
    changes
}

/// Returns true if an approval of the first inventory covers the second.
fn covers(before: &[RemovalTarget], now: &[RemovalTarget]) -> bool {
    let is_covered = |now: &CoveredFacts<'_>| beyond(find(before, now.thing).as_ref(), now).is_none();
    now.iter().map(CoveredFacts::of_target).all(|now| !now.was_found() || is_covered(&now))
}

impl Offboarding {
    /// Compares the next inventory with the last one, before it replaces it.
    pub(in crate::offboarding) fn note_changes(&mut self, next: &[RemovalTarget]) {
        if self.inventory.is_none() {
            return;
        }
        self.changed = all_changes(&self.targets, next);
        self.unsettled = !covers(&self.targets, next);
        self.replaced_plans = self.replaced_plans.saturating_add(u32::from(self.unsettled));
    }

    /// Returns true if too many plans were replaced and the last two inventories still differ. Then the writes must stop before approvers are asked
    /// again.
    pub(in crate::offboarding) fn keeps_changing(&self) -> bool {
        self.replaced_plans >= MOST_PLANS && self.unsettled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        offboarding::{TakenInventory, examples},
        signing::Digest,
    };
    use engine::Workflow as _;

    fn amount(objects: u64) -> Option<StoredAmount> {
        Some(StoredAmount { objects: Some(objects), bytes: Some(objects * 10), at_least: false })
    }

    /// Returns the targets of the example, with this number of objects in its bucket.
    fn holding(objects: u64) -> Vec<RemovalTarget> {
        let mut targets = examples::all().remove(0).targets;
        for target in &mut targets {
            target.amount = amount(objects).filter(|_| target.kind == AssetType::Bucket);
        }
        targets
    }

    fn take(me: &mut Offboarding, targets: Vec<RemovalTarget>) {
        let digest = Digest::from_bytes(format!("{targets:?}").as_bytes());
        me.record_inventory(TakenInventory { digest, assets: targets.len(), targets });
    }

    fn listed(me: &Offboarding) -> String {
        me.plan().decides["changes_since_last_inventory"].to_string()
    }

    #[test]
    fn a_lock_without_an_end_and_a_further_legal_hold_are_new() {
        let lock = |legal_holds, until: Option<&str>| StoreLock {
            objects: 2,
            legal_holds,
            until: until.map(str::to_owned),
        };
        let day = Some("2031-05-01T00:00:00Z");
        assert!(locks_more(&lock(0, day), &lock(0, None)));
        assert!(locks_more(&lock(0, day), &lock(1, day)));
        assert!(!locks_more(&lock(1, day), &lock(0, day)));
    }

    #[test]
    fn the_next_plan_lists_each_change_since_the_last_inventory() {
        let mut me = Offboarding { inventory: None, targets: Vec::new(), ..examples::all().remove(0) };
        take(&mut me, holding(100));
        assert_eq!((listed(&me).as_str(), me.replaced_plans), ("null", 0), "the first plan replaces none");

        let mut next = holding(300);
        let gone = next.iter().position(|target| target.kind == AssetType::Key).unwrap();
        let gone = next.remove(gone).thing;
        let late = TenantResource::new("objects", "eu", "Bucket", "late");
        next.push(RemovalTarget { thing: late, ..next[0].clone() });
        take(&mut me, next);
        let said = listed(&me);
        let gone = format!("{gone} is gone");
        for change in ["has 300 objects", "but had 100 objects", "late did not exist", gone.as_str()] {
            assert!(said.contains(change), "{change}: {said}");
        }

        take(&mut me, holding(299));
        assert!(listed(&me).contains("has 299 objects"), "a decrease is listed too");
    }

    #[test]
    fn approvers_see_three_plans_of_a_tenant_that_keeps_writing_and_the_next_one_when_it_stops() {
        let mut me = Offboarding { inventory: None, targets: Vec::new(), ..examples::all().remove(0) };
        let mut asked = 0;
        for round in 0..20 {
            take(&mut me, holding(100 << round));
            asked += u32::from(!me.keeps_changing());
        }
        assert_eq!(asked, MOST_PLANS, "{} plans were replaced", me.replaced_plans);

        take(&mut me, holding(100 << 19));
        assert!(!me.keeps_changing(), "two equal inventories");
        assert_eq!(listed(&me), "null");
        take(&mut me, holding(100 << 18));
        assert!(!me.keeps_changing(), "a decrease is covered");
        take(&mut me, holding(100 << 20));
        assert!(me.keeps_changing(), "it began again");
    }
}
