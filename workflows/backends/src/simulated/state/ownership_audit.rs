//! Checks the invariants of a simulated platform from the record of accepted calls, without the code that accepts them.

use crate::simulated::{
    Request,
    state::{State, nodes::Node},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use workflows::platform::codes;

/// An accepted effect.
#[derive(Clone, Debug)]
pub(in crate::simulated) struct Effect {
    pub(in crate::simulated) key: String,
    pub(in crate::simulated) step: String,
    pub(in crate::simulated) epoch: u64,
    pub(in crate::simulated) address: String,
    /// For nodes, the new owner.
    pub(in crate::simulated) owner: Option<Owner>,
}

/// The owner of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The tenant; `None` for a free node.
    pub tenant: Option<String>,
    /// The epoch of the current or the last ownership.
    pub owner_epoch: u64,
}

impl Effect {
    pub(in crate::simulated) fn of(request: &Request, node: Option<&Node>) -> Self {
        let owner =
            node.map(|node| Owner { tenant: node.owner.tenant.clone(), owner_epoch: node.owner.owner_epoch });
        Self {
            key: request.key.clone(),
            step: request.step.clone(),
            epoch: request.epoch,
            address: request.address(),
            owner,
        }
    }
}

/// Checks the record incrementally: each effect is checked once.
#[derive(Debug, Default)]
pub(in crate::simulated) struct OwnershipAuditor {
    effects: usize,
    refusals: usize,
    counts: BTreeMap<String, u32>,
    epochs: BTreeMap<String, u64>,
    owners: BTreeMap<String, Owner>,
    found: Vec<String>,
    reused: Vec<String>,
}

impl OwnershipAuditor {
    /// Returns violated invariants, one sentence each.
    pub(in crate::simulated) fn violations(&mut self, state: &State) -> Vec<String> {
        for effect in state.trace.iter().skip(self.effects) {
            self.weigh(effect);
        }
        self.effects = state.trace.len();
        let later = state.refused.iter().skip(self.refusals);
        let reused = later.filter(|refused| refused.code == codes::KEY_REUSED);
        self.reused.extend(
            reused
                .map(|refused| format!("key {} came for two things, last {}", refused.key, refused.address)),
        );
        self.refusals = state.refused.len();
        self.found.iter().chain(&self.reused).cloned().collect()
    }

    fn weigh(&mut self, effect: &Effect) {
        let Effect { key, step, epoch, address, owner } = effect;
        let count = self.counts.entry(key.clone()).or_default();
        *count += 1;
        if *count == 2 {
            self.found.push(format!("key {key} took effect more than once, last on {address}"));
        }
        let newest = self.epochs.entry(step.clone()).or_default();
        if epoch < newest {
            self.found.push(format!("step {step} acted at epoch {epoch} after it had acted at {newest}"));
        }
        *newest = (*epoch).max(*newest);
        if let Some(owner) = owner {
            let before = self.owners.insert(address.clone(), owner.clone());
            self.found.extend(before.and_then(|before| clash(address, &before, owner)));
        }
    }
}

fn clash(node: &str, before: &Owner, now: &Owner) -> Option<String> {
    match (&before.tenant, &now.tenant) {
        (Some(one), Some(other)) if one != other => Some(format!("{node} was {one}'s when {other} got it")),
        (Some(one), Some(_)) if before.owner_epoch != now.owner_epoch => {
            Some(format!("{node} got another epoch while it was {one}'s"))
        }
        (None, Some(_)) if now.owner_epoch <= before.owner_epoch => {
            Some(format!("{node} went from epoch {} to {}", before.owner_epoch, now.owner_epoch))
        }
        _ => None,
    }
}

/// Returns the current owners, by cluster and node.
pub(in crate::simulated) fn owners(state: &State) -> BTreeMap<String, Owner> {
    let taken = state.nodes.iter().filter(|(_, node)| node.owner.tenant.is_some());
    taken
        .map(|(address, node)| {
            let short = address.trim_start_matches("kubernetes/").replacen("/Node/", "/", 1);
            (short, Owner { tenant: node.owner.tenant.clone(), owner_epoch: node.owner.owner_epoch })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(key: &str, step: &str, epoch: u64, owner: Option<(Option<&str>, u64)>) -> Effect {
        let owner =
            owner.map(|(tenant, owner_epoch)| Owner { tenant: tenant.map(ToOwned::to_owned), owner_epoch });
        Effect { key: key.into(), step: step.into(), epoch, address: "n".into(), owner }
    }

    fn judged(trace: Vec<Effect>) -> Vec<String> {
        let mut state = State::default();
        let mut judge = OwnershipAuditor::default();
        let asked_at_each: Vec<_> = (0..trace.len())
            .map(|upto| {
                state.trace = trace[..=upto].to_vec();
                judge.violations(&state)
            })
            .collect();
        let asked_once = OwnershipAuditor::default().violations(&state);
        assert_eq!(asked_at_each.last(), Some(&asked_once));
        asked_once
    }

    /// The code that accepts calls is not involved, so its faults are detected.
    #[test]
    fn forbidden_states_are_found_from_the_record_only() {
        let free = |epoch| Some((None, epoch));
        let of = |tenant, epoch| Some((Some(tenant), epoch));

        assert_eq!(judged(vec![effect("a", "s", 1, of("x", 1)), effect("b", "s", 2, free(1))]), [""; 0]);
        for wrong in [
            vec![effect("a", "s", 1, None), effect("a", "s", 1, None)],
            vec![effect("a", "s", 2, None), effect("b", "s", 1, None)],
            vec![effect("a", "s", 1, of("x", 1)), effect("b", "t", 1, of("y", 2))],
            vec![effect("a", "s", 1, of("x", 1)), effect("b", "t", 1, of("x", 2))],
            vec![
                effect("a", "s", 1, of("x", 5)),
                effect("b", "t", 1, free(5)),
                effect("c", "u", 1, of("y", 5)),
            ],
        ] {
            assert_eq!(judged(wrong.clone()).len(), 1, "{wrong:?}");
        }
    }
}
