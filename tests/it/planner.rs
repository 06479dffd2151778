//! The reclaim planner: Kueue's cases, a second planner for comparison, and the rules beyond Kueue.

mod cases;
mod random;
mod rules;

use tests::preemption::{Place, State};
use workflows::scheduling::planner::*;

/// H100 GPUs.
fn h100() -> ResourceKind {
    ResourceKind::gpu("h100")
}

fn gpus(count: u64) -> Amounts {
    [(h100(), count)].into()
}

/// A tenant whose workspaces own these numbers of GPUs and may reclaim from any borrower.
fn tenant(workspaces: &[(&str, u64)]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    snapshot.add_cohort("acme", None, Sharing::default()).unwrap();
    let policies = Preemption {
        within_workspace: PreemptPolicy::LowerPriority,
        reclaim_within_cohort: PreemptPolicy::Any,
        ..Preemption::default()
    };
    for (name, nominal) in workspaces {
        snapshot.add_workspace(name, Some("acme"), policies, Sharing::default()).unwrap();
        snapshot.set_quota(name, &h100(), Quota { nominal: *nominal, ..Quota::default() }).unwrap();
    }
    snapshot
}

/// A workload with `count` GPUs on a node.
fn on(node: &str, id: &str, workspace: &str, count: u64) -> Workload {
    let part = WorkloadPart { node: node.to_owned(), gpu: None, amounts: gpus(count) };
    Workload { parts: vec![part], ..Workload::new(id, workspace, gpus(count)) }
}

fn reclaim(snapshot: &Snapshot, demand: &Demand, settings: &Settings) -> Plan {
    match plan(snapshot, demand, settings) {
        Ok(PlanAnswer::Reclaim(plan)) => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn victims(plan: &Plan) -> Vec<&str> {
    plan.victims.iter().map(|victim| victim.workload.as_str()).collect()
}

fn verdict<'a>(explanation: &'a Explanation, workload: &str) -> &'a Verdict {
    let listed = explanation.candidates.iter().find(|candidate| candidate.workload == workload);
    &listed.unwrap_or_else(|| panic!("{workload} is not listed: {explanation:?}")).verdict
}

/// A workspace or cohort of the second planner, with one resource.
fn place(parent: Option<usize>, cohort: bool, nominal: u64) -> Place {
    Place {
        parent,
        cohort,
        weight: 1_000_000_000,
        quotas: vec![Some(Quota { nominal, ..Quota::default() })],
        preemption: Preemption::default(),
    }
}

/// Returns the planner's choices for a state of the second planner, with reasons, sorted.
fn chosen(state: &State, settings: &Settings) -> Vec<(String, String)> {
    let victims = match plan(&state.snapshot(), &state.demand(), settings) {
        Ok(PlanAnswer::Reclaim(plan)) => plan.victims,
        Ok(PlanAnswer::Fits { .. } | PlanAnswer::Wait { .. }) | Err(_) => Vec::new(),
    };
    let mut chosen: Vec<_> =
        victims.into_iter().map(|victim| (victim.workload, victim.reason.to_string())).collect();
    chosen.sort();
    chosen
}

/// Kueue's rules without extensions.
fn kueue(algorithm: Algorithm) -> Settings {
    Settings { algorithm, guard: None, ..Settings::default() }
}
