//! Chooses the victims of a reclaim: a pure function from a snapshot, a demand and settings to a plan.
//!
//! Called before a reclaim begins, and by `tenure reclaim`. Quota, candidates and order are those of Kueue, classical and fair, over a tree of cohorts
//! (`docs/admission.md`): a tenant is a root cohort, and its workspaces are the leaves. Invariant: the planner reads no clock and does not change the snapshot.
//! Equal inputs give equal results; ties are broken by workload id.
//!
//! ```
//! use workflows::scheduling::planner::*;
//!
//! let h100 = ResourceKind::gpu("h100");
//! let mut snapshot = Snapshot::new();
//! snapshot.add_cohort("acme", None, Sharing::default())?;
//! let lender = Preemption { reclaim_within_cohort: PreemptPolicy::Any, ..Preemption::default() };
//! for workspace in ["production", "research"] {
//!     snapshot.add_workspace(workspace, Some("acme"), lender, Sharing::default())?;
//!     snapshot.set_quota(workspace, &h100, Quota { nominal: 8, ..Quota::default() })?;
//! }
//! for n in 0..16 {
//!     snapshot.admit(Workload::new(&format!("r-{n}"), "research", [(h100.clone(), 1)].into()))?;
//! }
//!
//! let demand = Demand::new("d-1", "production", [(h100, 4)].into());
//! let PlanAnswer::Reclaim(plan) = plan(&snapshot, &demand, &Settings::default()).unwrap() else { panic!() };
//! assert_eq!(plan.victims.len(), 4);
//! # Ok::<(), Unknown>(())
//! ```

mod cool_down;
mod explanation;
pub(crate) mod model;
mod placement;
mod plan;
pub(crate) mod preemption;

pub use cool_down::{CoolDownRules, RecentReclaims};
pub use model::entities::{
    Amounts, BorrowWithinCohort, Demand, DemandPiece, Gang, Node, PreemptPolicy, Preemption, Quota, Sharing,
    Weight, Workload, WorkloadPart,
};
pub use model::kind::{ParseKindError, ResourceKind};
pub use model::settings::{Algorithm, Guard, MinRuntimeAt, Settings, Strategy};
pub use model::snapshot::Snapshot;
pub use model::snapshot_error::Unknown;
pub use plan::{
    Attempt, Breach, Explanation, Filter, Infeasible, InfeasibleReason, JudgedCandidate, PiecePlacement,
    Plan, PlanAnswer, Reason, Verdict, Victim,
};

use crate::scheduling::planner::{
    model::snapshot::LoadIx,
    preemption::{attempt::PreemptionRun, preemptor::Preemptor},
};
use std::collections::{BTreeSet, HashSet};

/// The number of node-wise alternatives to try before a demand counts as fragmented.
const ALTERNATIVES: usize = 8;

/// Plans the victims for a demand, if it needs any.
///
/// # Guarantees
/// The demand fits once the victims are gone. Victims come from the demand's own workspace, or from workspaces above their nominal quota of a contested kind.
/// While GPUs are being freed for the demand, the result is to wait.
///
/// # Errors
/// If no set of preemptible victims is enough, or none within a hard guard. Then no workload is evicted.
pub fn plan(
    snapshot: &Snapshot,
    demand: &Demand,
    settings: &Settings,
) -> Result<PlanAnswer, Box<Infeasible>> {
    let mut ask = Preemptor::new(snapshot, demand, settings)?;
    let sim = ask.sim();
    let fits = ask.fits(&sim, true);
    let in_place = placement::place(&ask, ask.freed.iter().copied());
    if let Some(freeing) = freeing(snapshot, demand)
        && (demand.stuck.is_disjoint(&freeing) || (fits && in_place.is_some()))
    {
        return Ok(PlanAnswer::Wait { freeing });
    }
    let mut scattered = false;
    if demand.contested.is_none() {
        if let (true, Some(placement)) = (fits, &in_place) {
            return Ok(PlanAnswer::Fits { placement: placement.clone() });
        }
        let short = |(kind, amount): &(usize, i128)| *amount > sim.available(ask.node, *kind);
        ask.contested = ask.requests.iter().filter(|request| short(request)).map(|(kind, _)| *kind).collect();
        scattered = ask.contested.is_empty();
        if scattered {
            let needed: BTreeSet<usize> = demand
                .pieces
                .iter()
                .flat_map(|piece| piece.needs.keys())
                .filter_map(|kind| snapshot.kinds.get(kind).copied())
                .collect();
            ask.contested = needed.into_iter().collect();
        }
    }
    let mut attempts = Vec::new();
    let (run, found) = choose(&ask, scattered, &mut attempts);
    finish(&ask, run, found, attempts)
}

/// Returns the guard breaches of several plans of one tenant together that no single plan has: the victims' share of the tenant's capacity. All other limits of
/// a guard hold for the sum if they hold for each plan.
#[must_use]
pub fn combined_breaches(
    snapshot: &Snapshot,
    workspace: &str,
    guard: &Guard,
    victims: &[Victim],
) -> Vec<Breach> {
    let Some(node) = snapshot.workspaces.get(workspace) else { return Vec::new() };
    let held = |kind: &ResourceKind| {
        let held = victims.iter().filter_map(|victim| victim.frees.get(kind));
        held.map(|amount| u128::from(*amount)).sum()
    };
    preemption::guard::shares(snapshot, *node, guard, held)
}

/// Returns the workloads that are being freed for the demand, if any.
fn freeing(snapshot: &Snapshot, demand: &Demand) -> Option<BTreeSet<String>> {
    let loads = snapshot.freeing.get(&demand.id)?;
    Some(loads.iter().filter_map(|load| Some(snapshot.load(*load)?.workload.id.clone())).collect())
}

enum Found {
    Room { borrowing: bool },
    NotEnough,
    Scattered,
}

/// Chooses victims by quota, and by nodes to empty if the demand finds no nodes otherwise.
fn choose<'a, 'b>(
    ask: &'b Preemptor<'a>,
    scattered: bool,
    attempts: &mut Vec<Attempt>,
) -> (PreemptionRun<'a, 'b>, Found) {
    let nobody = HashSet::new();
    let mut run = PreemptionRun::new(ask, false, nobody.clone());
    if !scattered {
        let (plain, borrowing) = attempt(ask, false, &nobody, attempts);
        let Some(borrowing) = borrowing else { return (plain, Found::NotEnough) };
        if placement::place(ask, plain.all_taken()).is_some() {
            return (plain, Found::Room { borrowing });
        }
        run = plain;
    }
    let mut best: Option<(u128, usize, PreemptionRun<'a, 'b>, bool)> = None;
    let mut tries = placement::alternatives(ask, ALTERNATIVES - 1);
    tries.push((Vec::new(), nobody));
    for (nodes, first) in tries {
        let from = attempts.len();
        let (tried, borrowing) = attempt(ask, true, &first, attempts);
        attempts.iter_mut().skip(from).for_each(|attempt| attempt.nodes.clone_from(&nodes));
        let Some(borrowing) = borrowing else { continue };
        let (cost, count) = cost(&tried);
        if best.as_ref().is_none_or(|(least, fewest, ..)| (cost, count) < (*least, *fewest)) {
            best = Some((cost, count, tried, borrowing));
        }
    }
    match best {
        Some((_, _, run, borrowing)) => (run, Found::Room { borrowing }),
        None => {
            run.give_up();
            (run, Found::Scattered)
        }
    }
}

fn attempt<'a, 'b>(
    ask: &'b Preemptor<'a>,
    placed: bool,
    first: &HashSet<LoadIx>,
    attempts: &mut Vec<Attempt>,
) -> (PreemptionRun<'a, 'b>, Option<bool>) {
    match ask.settings.algorithm {
        Algorithm::Classical => preemption::classical::run(ask, placed, first, attempts),
        Algorithm::Fair { .. } => preemption::fair_sharing::run(ask, placed, first, attempts),
    }
}

/// Returns the devices of the victims and the number of victims.
fn cost(run: &PreemptionRun<'_, '_>) -> (u128, usize) {
    let members = run.units.iter().flat_map(|unit| &unit.members);
    let loads = members.clone().filter_map(|load| run.ask.snapshot.load(*load));
    let held = loads.flat_map(|load| &load.workload.usage).filter(|(kind, _)| kind.is_device());
    (held.map(|(_, amount)| u128::from(*amount)).sum(), members.count())
}

fn finish(
    ask: &Preemptor<'_>,
    run: PreemptionRun<'_, '_>,
    found: Found,
    attempts: Vec<Attempt>,
) -> Result<PlanAnswer, Box<Infeasible>> {
    let explained = |judged, found| {
        let mut explanation = explanation::explain(ask, judged, found);
        explanation.attempts = attempts;
        explanation
    };
    let borrowing = match found {
        Found::Room { borrowing } => borrowing,
        Found::NotEnough => {
            return Err(Box::new(Infeasible {
                why: InfeasibleReason::NotEnough,
                explanation: explained(run.judged, false),
            }));
        }
        Found::Scattered => {
            let explanation = explained(run.judged, false);
            return Err(Box::new(Infeasible { why: InfeasibleReason::Fragmentation, explanation }));
        }
    };
    let breaches =
        ask.settings.guard.as_ref().map(|guard| preemption::guard::breaches(ask, guard, &counted(&run)));
    let breaches = breaches.unwrap_or_default();
    let victims = victims(&run);
    let placement = placement::place(ask, run.all_taken()).unwrap_or_default();
    let explanation = explained(run.judged, true);
    if !breaches.is_empty() && ask.settings.guard.as_ref().is_some_and(|guard| guard.hard) {
        return Err(Box::new(Infeasible { why: InfeasibleReason::Guard { breaches }, explanation }));
    }
    Ok(PlanAnswer::Reclaim(Plan { victims, borrowing, breaches, placement, explanation }))
}

/// Returns the total cost of the demand: victims, workloads already being freed for it, and workloads that do not end.
fn counted(run: &PreemptionRun<'_, '_>) -> Vec<LoadIx> {
    let freeing = run.ask.snapshot.freeing.get(&run.ask.demand.id);
    let mut all: Vec<LoadIx> = run.all_taken().chain(freeing.into_iter().flatten().copied()).collect();
    let key = |load: &LoadIx| run.ask.snapshot.load(*load).map(|load| &load.key);
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    all.dedup();
    all
}

fn victims(run: &PreemptionRun<'_, '_>) -> Vec<Victim> {
    let mut victims = Vec::new();
    for unit in &run.units {
        let mut loads: Vec<_> = unit.members.iter().filter_map(|load| run.ask.snapshot.load(*load)).collect();
        loads.sort_by(|a, b| (a.key.load != unit.lead, &a.key).cmp(&(b.key.load != unit.lead, &b.key)));
        victims.extend(loads.into_iter().map(|load| {
            let workload = &load.workload;
            let gang = workload.gang.as_ref().filter(|_| load.key.load != unit.lead);
            Victim {
                workload: workload.id.clone(),
                workspace: workload.workspace.clone(),
                reason: unit.reason,
                frees: workload.usage.clone(),
                gang: gang.map(|gang| gang.id.clone()),
                ongoing: workload.evicted,
            }
        }));
    }
    victims
}
