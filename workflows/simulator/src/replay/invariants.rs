//! Checks invariants after every change of the ledger and records violations.
//!
//! Rules have the names of the requirements: I-n for invariants, S-n for promises, P-n for reclaim. Cheap checks run
//! after each event. Documents are compared with each other and with the simulated cluster at intervals of events.

use crate::{
    replay::{demand::DemandState, outcome::Violation},
    scenario::Scenario,
    trace::{Demand, openb::per_gpu},
};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use store::{ExecutionId, Timestamp};
use workflows::{
    scheduling::admission::lends,
    tenancy::{
        ActiveReclaim, Admission, Balance, Cohort, NodeId, Placed, Profile, Resource, Workload, WorkspaceName,
    },
};

/// The number of violations after which further ones are only counted.
const MOST: usize = 1_000;

/// A GPU as the replay knows it.
struct GpuUse {
    profile: Option<Profile>,
    slices: u64,
    users: Vec<(String, u64)>,
}

/// The checks and their state.
pub(crate) struct InvariantChecks {
    violations: Vec<Violation>,
    cool_down: Duration,
    cards: HashMap<(NodeId, u16), GpuUse>,
    running: HashMap<String, (WorkspaceName, Resource, u64, Vec<Placed>)>,
    used: BTreeMap<(WorkspaceName, Resource), u64>,
    /// Victims of one reclaim at one time: sum and largest, by workspace.
    taken: BTreeMap<(Timestamp, ExecutionId, WorkspaceName), (u64, u64)>,
}

impl InvariantChecks {
    pub(crate) fn new(scene: &Scenario, cohort: &Cohort, cool_down: Duration) -> Self {
        let mut cards = HashMap::new();
        for machine in &scene.machines {
            for (index, profile) in (0_u16..).zip(&machine.gpus) {
                let slices = profile.as_ref().map_or(1, |profile| u64::from(per_gpu(profile.as_str())));
                let card = GpuUse { profile: profile.clone(), slices, users: Vec::new() };
                cards.insert((machine.node.clone(), index), card);
            }
        }
        let mut checks = Self {
            violations: Vec::new(),
            cool_down,
            cards,
            running: HashMap::new(),
            used: BTreeMap::new(),
            taken: BTreeMap::new(),
        };
        checks.quotas(scene, cohort);
        checks
    }

    /// I-5: GPUs cover nominal quotas, and nominal quotas cover reservations.
    fn quotas(&mut self, scene: &Scenario, cohort: &Cohort) {
        for (kind, capacity) in scene.capacity() {
            let resource = Resource::Gpu(kind);
            let nominal: u64 = cohort.balances(&resource).map(|(_, balance)| balance.allowance.nominal).sum();
            if nominal > capacity {
                self.note(
                    scene.starts,
                    "I-5",
                    format!("{nominal} {resource} are promised, but only {capacity} owned"),
                );
            }
            for (workspace, account) in &cohort.accounts {
                let (reserved, own) = (account.reserved(&resource, scene.starts), account.balance(&resource));
                if reserved > own.allowance.nominal {
                    self.note(
                        scene.starts,
                        "I-5",
                        format!("{workspace} has {reserved} reserved beyond its quota"),
                    );
                }
            }
        }
    }

    pub(crate) fn note(&mut self, at: Timestamp, rule: &'static str, what: String) {
        if self.violations.len() < MOST {
            self.violations.push(Violation { at, rule, what });
        }
    }

    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Returns the placement of a running workload, as the replay has seen it.
    pub(crate) fn runs(&self, workload: &str) -> Option<&[Placed]> {
        self.running.get(workload).map(|(_, _, _, placed)| placed.as_slice())
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &String> {
        self.running.keys()
    }

    /// Checks the account after a change: I-7, I-8, I-24, and agreement with the running workloads.
    pub(crate) fn account(&mut self, now: Timestamp, cohort: &Cohort) {
        let mut sums: BTreeMap<&Resource, Sums> = BTreeMap::new();
        let mut wrong = Vec::new();
        for (workspace, account) in &cohort.accounts {
            for (resource, balance) in
                account.balances.iter().filter(|(resource, _)| resource.gpu().is_some())
            {
                let sum = sums.entry(resource).or_default();
                sum.borrowed += balance.borrowed;
                sum.lent += balance.lent;
                sum.beyond += balance.over_nominal() - balance.over_quota();
                sum.taken += balance.in_use();
                balance_holds(workspace, resource, balance, &mut wrong);
                let key = (workspace.clone(), resource.clone());
                let seen = self.used.get(&key).copied().unwrap_or(0);
                if seen != balance.used {
                    let what =
                        format!("{workspace} uses {} {resource}, but {seen} were observed", balance.used);
                    wrong.push(("I-4", what));
                }
            }
        }
        for (resource, sum) in sums {
            let lent_in_all = sum.lent + cohort.pool_lent(resource);
            if sum.borrowed != lent_in_all || sum.borrowed != sum.beyond {
                let Sums { borrowed, lent, beyond, .. } = sum;
                let what =
                    format!("{borrowed} {resource} are borrowed, {lent} lent, {beyond} beyond nominal");
                wrong.push(("I-8", what));
            }
            if let Some(stock) = cohort.stock.get(resource)
                && stock.pieces != stock.free + stock.resting + sum.taken
            {
                let what = format!(
                    "of {} {resource}, {} are free, {} out of service and {} in use",
                    stock.pieces, stock.free, stock.resting, sum.taken
                );
                wrong.push(("I-24", what));
            }
        }
        for (rule, what) in wrong {
            self.note(now, rule, what);
        }
    }

    /// Checks a victim: I-11 and I-12.
    pub(crate) fn victim(
        &mut self,
        now: Timestamp,
        before: &Cohort,
        reclaim: &ActiveReclaim,
        resource: &Resource,
        demand: &Demand,
    ) {
        if !demand.standing.can_be_evicted() {
            self.note(now, "I-11", format!("{} is evicted, but must not be", demand.name));
        }
        let key = (now, reclaim.execution, demand.workspace.clone());
        self.taken.retain(|(at, _, _), _| *at == now);
        let (sum, largest) = self.taken.entry(key).or_default();
        *sum += demand.gpus;
        *largest = (*largest).max(demand.gpus);
        // The victims before the last one must leave the workspace above its nominal quota; this holds if it holds with
        // the largest as the last.
        let earlier = *sum - *largest;
        let beyond = before
            .accounts
            .get(&demand.workspace)
            .map_or(0, |account| account.balance(resource).over_nominal());
        if demand.workspace != reclaim.workspace && earlier >= beyond {
            let what = format!(
                "{} is evicted from {}, which is {beyond} above its nominal quota, but already returns {earlier}",
                demand.name, demand.workspace
            );
            self.note(now, "I-12", what);
        }
    }

    /// Checks an admitted demand: I-11 and P-9.
    pub(crate) fn admitted(
        &mut self,
        now: Timestamp,
        demand: &Demand,
        admission: &Admission,
        life: &DemandState,
    ) {
        let resource = Resource::Gpu(demand.kind.clone());
        let ground = admission.grounds.resources.get(&resource);
        let borrows = ground.is_some_and(|ground| ground.taken + demand.gpus > ground.allowance.nominal);
        if borrows && !demand.standing.can_be_evicted() {
            self.note(now, "I-11", format!("{} borrows, but may not be evicted", demand.name));
        }
        let cools = life.evicted.filter(|evicted| now < evicted.after(self.cool_down));
        if let Some(evicted) = cools.filter(|_| borrows) {
            let since = now.since(evicted).as_secs();
            self.note(now, "P-9", format!("{} borrows again {since} s after its eviction", demand.name));
        }
    }

    /// Checks and records a placement: I-3 and I-4.
    pub(crate) fn placed(&mut self, now: Timestamp, demand: &Demand, workload: &Workload) {
        let mut wrong = Vec::new();
        let mut pieces = 0;
        for part in &workload.placed {
            for (index, slices) in &part.gpus {
                pieces += u64::from(*slices);
                let Some(card) = self.cards.get_mut(&(part.node.clone(), *index)) else {
                    wrong.push(("I-3", format!("{} runs on a GPU that does not exist", workload.name)));
                    continue;
                };
                card.users.push((workload.name.clone(), u64::from(*slices)));
                let sum: u64 = card.users.iter().map(|(_, slices)| slices).sum();
                if sum > card.slices || card.profile != demand.kind.profile {
                    let users: Vec<&str> = card.users.iter().map(|(name, _)| name.as_str()).collect();
                    wrong.push((
                        "I-4",
                        format!("GPU {index} of {} is used by {}", part.node, users.join(", ")),
                    ));
                }
            }
        }
        if pieces != demand.gpus {
            wrong.push(("I-4", format!("{} requested {}, but has {pieces}", workload.name, demand.gpus)));
        }
        if workload.decision.is_empty() {
            wrong.push(("I-4", format!("{} runs without a decision", workload.name)));
        }
        let resource = Resource::Gpu(demand.kind.clone());
        *self.used.entry((demand.workspace.clone(), resource.clone())).or_default() += demand.gpus;
        let entry = (demand.workspace.clone(), resource, demand.gpus, workload.placed.clone());
        self.running.insert(workload.name.clone(), entry);
        for (rule, what) in wrong {
            self.note(now, rule, what);
        }
    }

    /// Records that a workload stopped. Returns its placement.
    pub(crate) fn vacated(&mut self, name: &str) -> Option<Vec<Placed>> {
        let (workspace, resource, gpus, placed) = self.running.remove(name)?;
        if let Some(used) = self.used.get_mut(&(workspace, resource)) {
            *used = used.saturating_sub(gpus);
        }
        for part in &placed {
            for index in part.gpus.keys() {
                if let Some(card) = self.cards.get_mut(&(part.node.clone(), *index)) {
                    card.users.retain(|(user, _)| user != name);
                }
            }
        }
        Some(placed)
    }
}

#[derive(Default)]
struct Sums {
    borrowed: u64,
    lent: u64,
    beyond: u64,
    taken: u64,
}

fn balance_holds(
    workspace: &WorkspaceName,
    resource: &Resource,
    balance: &Balance,
    wrong: &mut Vec<(&'static str, String)>,
) {
    let allowance = &balance.allowance;
    let most = allowance.borrowing_limit.and_then(|limit| allowance.nominal.checked_add(limit));
    if most.is_some_and(|most| balance.in_use() > most + balance.over_quota()) {
        let what =
            format!("{workspace} uses {} {resource}, but may use {}", balance.in_use(), most.unwrap_or(0));
        wrong.push(("I-7", what));
    }
    let lendable = lends(allowance);
    if balance.lent > lendable {
        wrong
            .push(("I-8", format!("{workspace} lends {} {resource}, but may lend {lendable}", balance.lent)));
    }
}
