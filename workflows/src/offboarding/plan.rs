//! The plans for the approvals: the first covers the offboarding itself, the second the exact list of assets to destroy.

use super::{Offboarding, RemovalTarget, inventory::TOLERATED_PERCENT, record::OffboardingTerms};
use crate::{destruction::key_destruction, policy::duration::show, signing::Digest};
use engine::Plan;
use serde_json::{Value, json};

pub(super) fn of(me: &Offboarding) -> Plan {
    let (Some(leaver), Some(terms)) = (&me.leaver, &me.terms) else {
        let decides =
            json!({ "kind": "offboarding", "tenant": me.tenant, "basis": me.basis, "reason": me.reason });
        return Plan { title: format!("offboard {}", me.tenant), decides, placement: Value::Null };
    };
    let nodes: Vec<Value> = me
        .sanitisations()
        .iter()
        .map(crate::offboarding::node_sanitisation::NodeSanitisation::decides)
        .collect();
    let title = match (&me.inventory, &me.remaining) {
        (None, None) => format!("offboard {}: {} nodes", me.tenant, nodes.len()),
        (None, Some(remaining)) => {
            let (things, nodes) = (remaining.assets.len(), nodes.len());
            format!("offboard the remains of closed tenant {}: {things} objects and {nodes} nodes", me.tenant)
        }
        (Some(digest), _) => format!("destroy {} assets of {}: {}", me.assets, me.tenant, digest.short()),
    };
    let destroys = me.inventory.as_ref().map(|digest| destroys(me, digest));
    let mut decides = json!({
        "kind": "offboarding",
        "tenant": me.tenant,
        "basis": me.basis,
        "reason": me.reason,
        "simulated": leaver.simulated,
        "cluster": leaver.cluster,
        "workspaces": leaver.workspaces,
        "nodes": nodes,
        "policy": terms.policy,
        "destroys": destroys,
    });
    let locks = me.lock_sentences();
    if let Some(fields) = decides.as_object_mut().filter(|_| !locks.is_empty()) {
        fields.insert("locked".into(), json!(locks));
    }
    if let Some(fields) = decides.as_object_mut().filter(|_| !me.changed.is_empty()) {
        fields.insert("changes_since_last_inventory".into(), json!(me.changed));
    }
    // Only present for the remains of a closed tenant, so that plans of earlier versions keep their digest.
    if let (Some(fields), Some(remaining)) = (decides.as_object_mut(), &me.remaining) {
        fields.insert("remaining".into(), json!(remaining));
    }
    // Not part of the approved content, so that the digest of approved plans stays the same.
    let placement = match &me.inventory {
        None => json!({ "what_happens_when": steps(terms, me.remaining.is_some()) }),
        Some(_) => Value::Null,
    };
    Plan { title, decides, placement }
}

/// Returns the sequence of an offboarding in sentences, for the first approval.
pub(super) fn steps(terms: &OffboardingTerms, is_remaining: bool) -> Vec<String> {
    if is_remaining {
        return vec![
            "immediately: an inventory is taken of the objects that the check of the closed tenant found; no data is destroyed yet".to_owned(),
            format!(
                "then: a second approval decides on the destruction of the listed objects; without it, the approvers are asked again after {}",
                show(terms.extension)
            ),
            "at the end: a supplementary certificate names the first one".to_owned(),
        ];
    }
    vec![
        "immediately: the tenant is frozen; no data is destroyed yet".to_owned(),
        format!(
            "for at most {}: the tenant can export its data; the signal export.confirmed ends this earlier",
            show(terms.export_window)
        ),
        format!(
            "then: an inventory is taken, and a second approval decides on the destruction of the listed objects; without it, the tenant gets another {}",
            show(terms.extension)
        ),
    ]
}

/// Returns the content of the destruction with the known exceptions and the simulated places.
fn destroys(me: &Offboarding, inventory: &Digest) -> Value {
    let mut destroys = json!({ "inventory": inventory, "assets": me.assets, "things": things(me) });
    let Some(fields) = destroys.as_object_mut() else { return destroys };
    // Each field is omitted when empty, so that plans of earlier versions keep their digest.
    let exceptions = exceptions(me);
    if !exceptions.is_empty() {
        fields.insert("exceptions".into(), json!(exceptions));
    }
    if let Some(places) = me.simulated_places.as_ref().filter(|places| !places.is_empty()) {
        fields.insert("simulated_places".into(), json!(places));
    }
    if me.targets.iter().any(|target| target.amount.is_some()) {
        let when = format!(
            "a new plan is made and agreed to if one of these grows by more than {TOLERATED_PERCENT} % in objects or bytes before \
             destruction begins"
        );
        fields.insert("asked_again".into(), when.into());
    }
    destroys
}

/// Returns a sentence for each resource whose destruction will not count, with the reason. A key that stays is not destroyed.
fn exceptions(me: &Offboarding) -> Vec<String> {
    let cannot = |target: &RemovalTarget| {
        let why = key_destruction::will_count(&target.can_come_back).err()?;
        Some(format!("{}: {why}", target.thing))
    };
    me.targets.iter().filter(|target| !me.is_to_stay(target)).filter_map(cannot).collect()
}

/// Returns each resource with its treatment and the amount of its data.
fn things(me: &Offboarding) -> Vec<Value> {
    let fate = |target: &RemovalTarget| {
        let mut shown = match target.keep_until {
            Some(until) => json!({ "thing": target.thing, "uid": target.uid, "kept_until": until }),
            None if me.is_to_stay(target) => {
                let why = "what is locked may be encrypted with it";
                json!({ "thing": target.thing, "uid": target.uid, "kept": why })
            }
            None if target.can_come_back.is_empty() => {
                json!({ "thing": target.thing, "uid": target.uid })
            }
            None => {
                json!({ "thing": target.thing, "uid": target.uid, "can_come_back": target.can_come_back })
            }
        };
        let more = [
            ("holds", target.amount.as_ref().map(ToString::to_string)),
            ("its_store_keeps_it_until", target.store_keeps_until.clone()),
        ];
        if let Some(fields) = shown.as_object_mut() {
            let more = more.into_iter().filter_map(|(name, said)| Some((name.to_owned(), said?.into())));
            fields.extend(more);
        }
        shown
    };
    me.targets.iter().map(fate).collect()
}
