//! The limits of plans without an approval.

use crate::scheduling::planner::{
    Breach, Guard, ResourceKind, Snapshot,
    model::{
        cohort_tree::NodeIx,
        snapshot::{LoadIx, RunningLoad},
    },
    preemption::preemptor::Preemptor,
};
use std::collections::BTreeMap;

/// Returns the limits that these workloads exceed, in a fixed order.
pub(in crate::scheduling::planner) fn breaches(
    ask: &Preemptor<'_>,
    guard: &Guard,
    loads: &[LoadIx],
) -> Vec<Breach> {
    let loads: Vec<&RunningLoad> = loads.iter().filter_map(|load| ask.snapshot.load(*load)).collect();
    let mut found = ratios(ask, guard, &loads);
    let held = |kind: &ResourceKind| {
        let held = loads.iter().filter_map(|load| load.workload.usage.get(kind));
        held.map(|amount| u128::from(*amount)).sum()
    };
    found.extend(shares(ask.snapshot, ask.node, guard, held));
    found.extend(large(guard, &loads));
    found.extend(loads.iter().filter_map(|load| long(ask, guard, load)));
    found
}

/// Returns true if this workload exceeds the guard without other victims.
pub(in crate::scheduling::planner) fn breaks_alone(
    ask: &Preemptor<'_>,
    guard: &Guard,
    load: &RunningLoad,
) -> bool {
    gpus(load) > u128::from(guard.max_victim_gpus) || long(ask, guard, load).is_some()
}

fn short(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

fn gpus(load: &RunningLoad) -> u128 {
    let held = load.workload.usage.iter().filter(|(kind, _)| kind.is_gpu());
    held.map(|(_, amount)| u128::from(*amount)).sum()
}

fn ratios(ask: &Preemptor<'_>, guard: &Guard, loads: &[&RunningLoad]) -> Vec<Breach> {
    let mut held: BTreeMap<&str, u128> = BTreeMap::new();
    for (kind, amount) in loads.iter().flat_map(|load| &load.workload.usage) {
        if kind.is_device() {
            *held.entry(kind.resource()).or_default() += u128::from(*amount);
        }
    }
    let over = held.into_iter().filter_map(|(resource, victims)| {
        let asked = ask.demand.requests.iter().filter(|(kind, _)| kind.resource() == resource);
        let requested: u128 = asked.map(|(_, amount)| u128::from(*amount)).sum();
        (victims.saturating_mul(100) > requested.saturating_mul(u128::from(guard.ratio_percent))).then(|| {
            Breach::Ratio {
                resource: resource.to_owned(),
                victims: short(victims),
                requested: short(requested),
                percent: guard.ratio_percent,
            }
        })
    });
    over.collect()
}

/// Returns the kinds of which the victims take more than the allowed share of the capacity.
pub(in crate::scheduling::planner) fn shares(
    snapshot: &Snapshot,
    node: NodeIx,
    guard: &Guard,
    held: impl Fn(&ResourceKind) -> u128,
) -> Vec<Breach> {
    let root = snapshot.tree.root(node);
    let over = snapshot.kinds.iter().filter(|(kind, _)| kind.is_device()).filter_map(|(kind, at)| {
        let victims = held(kind);
        let lent = || u128::try_from(snapshot.tree.row(root, *at).subtree).unwrap_or_default();
        let capacity = snapshot.owned.get(kind).map_or_else(lent, |owned| u128::from(*owned));
        (victims.saturating_mul(100) > capacity.saturating_mul(u128::from(guard.share_percent))).then(|| {
            Breach::TenantShare {
                kind: kind.clone(),
                victims: short(victims),
                capacity: short(capacity),
                percent: guard.share_percent,
            }
        })
    });
    over.collect()
}

/// A gang counts as one victim, because it is lost as a whole.
fn large(guard: &Guard, loads: &[&RunningLoad]) -> Vec<Breach> {
    let mut held: BTreeMap<&str, u128> = BTreeMap::new();
    for load in loads {
        let name = load.workload.gang.as_ref().map_or(load.workload.id.as_str(), |gang| gang.id.as_str());
        *held.entry(name).or_default() += gpus(load);
    }
    let large = held.into_iter().filter(|(_, gpus)| *gpus > u128::from(guard.max_victim_gpus));
    let breach = |(workload, gpus): (&str, u128)| Breach::LargeVictim {
        workload: workload.to_owned(),
        gpus: short(gpus),
        most: guard.max_victim_gpus,
    };
    large.map(breach).collect()
}

fn long(ask: &Preemptor<'_>, guard: &Guard, load: &RunningLoad) -> Option<Breach> {
    let ran = ask.demand.now.saturating_sub(load.workload.reserved_at);
    let most = guard.max_run_without_checkpoint;
    let long = !load.workload.checkpoints && ran > most;
    long.then(|| Breach::LongRunning { workload: load.workload.id.clone(), ran, most })
}
