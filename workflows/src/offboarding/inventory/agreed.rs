//! Compares the approved plan of a destruction with the existing resources, after the approval and before the destruction begins.
//!
//! Invariant: an approval covers its plan only. Anything beyond the plan leads to a new inventory, a new plan and new votes.

use super::StoredAmount;
use crate::{
    destruction::{AssetType, codes as destruction_codes},
    offboarding::{RemovalTarget, StoreLock},
    platform::{ObservedResource, Platform, SurveyTenant, TenantResource},
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// The maximum number of changes in an error message.
const MOST_NAMED: usize = 20;

/// Surveys the tenant again and compares the result with the approved plan.
///
/// Fails with `inventory.changed` and names each change. Changes are a new resource, another unique id, growth beyond the tolerance, a new lock, and
/// a new way to recover a key. Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecheckInventory {
    /// The survey to run.
    pub survey: SurveyTenant,
    /// The resources in the approved plan.
    pub agreed: Vec<RemovalTarget>,
    /// For a closed tenant: the resources that a certificate retains for now. They are in no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<TenantResource>,
}

impl Action for RecheckInventory {
    const NAME: &'static str = "RecheckInventory";
    type Platform = Platform;
    type Output = ();

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let survey = self.survey.run(on, call).await?;
        let changes = changes(&self.agreed, &self.kept, &survey.seen);
        if changes.is_empty() {
            return Ok(());
        }
        let more = changes.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let named = changes.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
        let why = format!("the approved plan does not cover this: {named}{more}");
        Err(ActionError::permanent(destruction_codes::INVENTORY_CHANGED, why))
    }
}

/// Returns a sentence for each change that the plan does not cover. A decrease is covered.
fn changes(agreed: &[RemovalTarget], kept: &[TenantResource], seen: &[ObservedResource]) -> Vec<String> {
    // Each node is read and cleaned in its own execution.
    let things = seen.iter().filter(|seen| seen.thing.kind != "Node" && !kept.contains(&seen.thing));
    things.filter_map(|seen| change(agreed.iter().find(|target| target.thing == seen.thing), seen)).collect()
}

fn change(target: Option<&RemovalTarget>, seen: &ObservedResource) -> Option<String> {
    let thing = &seen.thing;
    let Some(target) = target else { return Some(format!("{thing} was not there")) };
    if target.uid.is_empty() && !seen.uid.is_empty() {
        return Some(format!("{thing} was not there"));
    }
    if target.uid != seen.uid {
        return Some(format!("{thing} is another than the one in the plan"));
    }
    if let (Some(then), Some(now)) = (&target.amount, StoredAmount::of(seen))
        && then.has_grown(&now)
    {
        return Some(format!("{thing} holds {now}, and held {then}"));
    }
    if let Some(lock) = StoreLock::of(seen)
        && target.locked.as_ref().is_none_or(|then| locks_more(then, &lock))
    {
        return Some(format!("{thing}: {lock}"));
    }
    if let Some(until) = seen.text("kept_until")
        && target.store_keeps_until.as_deref() < Some(until)
    {
        return Some(format!("{thing}: its store keeps it until {until}"));
    }
    let ways = seen.key_safety().can_come_back;
    let new = ways.iter().find(|way| !target.can_come_back.contains(way));
    let new = new.filter(|_| target.kind == AssetType::Key)?;
    Some(format!("{thing}: {}", new.phrase()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offboarding::{Offboarding, examples};
    use engine::Workflow as _;
    use serde_json::{Value, json};

    fn bucket(spec: Value) -> ObservedResource {
        ObservedResource {
            thing: TenantResource::new("objects", "eu", "Bucket", "t-example--eu"),
            uid: "uid".into(),
            tenant: "example".into(),
            spec,
            terminating: false,
        }
    }

    fn key(spec: Value) -> ObservedResource {
        ObservedResource { thing: TenantResource::new("keys", "", "Key", "t-example"), ..bucket(spec) }
    }

    fn agreed() -> Offboarding {
        let mut me = examples::all().remove(0);
        for target in &mut me.targets {
            target.amount = (target.kind == AssetType::Bucket)
                .then(|| StoredAmount::of(&bucket(json!({ "versions": 3, "bytes": 30 }))))
                .flatten();
        }
        me
    }

    #[test]
    fn resources_beyond_the_plan_need_a_new_approval() {
        let safe = json!({ "can_come_back": [] });
        let late = TenantResource::new("objects", "eu", "Bucket", "late");
        for (seen, says) in [
            (bucket(json!({ "versions": 4, "bytes": 30 })), "holds 4 objects, 30 bytes, and held 3 objects"),
            (bucket(json!({ "versions": 3, "bytes": 300 })), "holds 3 objects, 300 bytes"),
            (bucket(json!({ "versions": 3, "more": true })), "at least"),
            (bucket(json!({ "versions": 2, "locked": 1, "bytes": 30 })), "1 objects are locked"),
            (ObservedResource { uid: "other".into(), ..bucket(json!({})) }, "is another"),
            (ObservedResource { thing: late, ..bucket(json!({})) }, "was not there"),
            (bucket(json!({ "kept_until": "2031-05-01T00:00:00Z" })), "its store keeps it until 2031"),
            (key(json!({ "can_come_back": ["backed_up"] })), "a backup of it was taken"),
        ] {
            let thing = [seen.thing.clone()];
            let seen = [seen, key(safe.clone())];
            assert_eq!(
                changes(&agreed().targets, &thing, &seen),
                Vec::<String>::new(),
                "a certificate keeps it"
            );
            let found = changes(&agreed().targets, &[], &seen);
            assert!(found.first().is_some_and(|why| why.contains(says)) && found.len() == 1, "{found:?}");
        }
        let less = [bucket(json!({ "versions": 2, "bytes": 30 })), key(safe)];
        assert_eq!(changes(&agreed().targets, &[], &less), Vec::<String>::new());
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
    fn the_plan_shows_the_size_of_each_resource_and_when_a_new_approval_is_needed() {
        let plan = agreed().plan().decides["destroys"].to_string();
        assert!(plan.contains("3 objects, 30 bytes") && plan.contains("more than 5 %"), "{plan}");
        let unknown = examples::all().remove(0).plan().decides["destroys"].to_string();
        assert!(!unknown.contains("holds") && !unknown.contains("asked_again"), "{unknown}");
    }
}
