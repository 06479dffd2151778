//! The rules beyond Kueue: filters, gangs, nodes and slices; the guard and time have their own modules.

mod guard;
mod in_flight;

use super::{gpus, h100, kueue, on, reclaim, tenant, verdict, victims};
use workflows::scheduling::planner::*;

const HOUR: i64 = 60 * 60 * 1000;

fn demand(count: u64) -> Demand {
    Demand { now: 10 * HOUR, ..Demand::new("d-1", "production", gpus(count)) }
}

/// Production owns eight GPUs that research uses, two for each of four workloads; `r-3` is the most recent.
fn lent() -> Snapshot {
    let mut snapshot = tenant(&[("production", 8), ("research", 0)]);
    for n in 0..4 {
        let load =
            Workload { reserved_at: n * HOUR, ..Workload::new(&format!("r-{n}"), "research", gpus(2)) };
        snapshot.admit(load).unwrap();
    }
    snapshot
}

fn change(snapshot: &mut Snapshot, id: &str, with: impl FnOnce(&mut Workload)) {
    let mut workload = snapshot.remove(id).unwrap();
    with(&mut workload);
    snapshot.admit(workload).unwrap();
}

fn free() -> Settings {
    kueue(Algorithm::Classical)
}

fn why(snapshot: &Snapshot, demand: &Demand, settings: &Settings) -> InfeasibleReason {
    plan(snapshot, demand, settings).unwrap_err().why
}

// ---------------------------------------------------------------- what a plan says

#[test]
fn a_demand_that_fits_needs_no_victim() {
    let mut snapshot = lent();
    snapshot.remove("r-0").unwrap();

    let answer = plan(&snapshot, &demand(2), &free());

    assert_eq!(answer, Ok(PlanAnswer::Fits { placement: vec![] }));
}

#[test]
fn a_demand_above_the_limits_of_its_workspace_is_hopeless() {
    let why_not = why(&lent(), &demand(9), &free());

    assert_eq!(why_not, InfeasibleReason::NeverFits { kind: h100(), most: 8 });
}

#[test]
fn every_candidate_is_listed_with_its_verdict() {
    let mut snapshot = lent();
    snapshot.add_workspace("keeper", Some("acme"), Preemption::default(), Sharing::default()).unwrap();
    snapshot.set_quota("keeper", &h100(), Quota { nominal: 2, ..Quota::default() }).unwrap();
    snapshot.admit(Workload::new("k-0", "keeper", gpus(2))).unwrap();
    snapshot.admit(Workload { priority: 0, ..Workload::new("small", "research", gpus(0)) }).unwrap();
    change(&mut snapshot, "small", |small| (small.usage, small.reserved_at) = (gpus(1), 5 * HOUR));
    snapshot.set_quota("production", &h100(), Quota { nominal: 9, ..Quota::default() }).unwrap();
    change(&mut snapshot, "r-2", |load| load.preemptible = false);

    let plan = reclaim(&snapshot, &demand(4), &free());

    let judged: Vec<_> = plan.explanation.candidates.iter().map(|c| c.workload.as_str()).collect();
    assert_eq!(judged, ["small", "r-3", "r-2", "r-1", "k-0", "r-0"]);
    assert_eq!(*verdict(&plan.explanation, "small"), Verdict::Returned);
    assert_eq!(*verdict(&plan.explanation, "r-3"), Verdict::Taken { reason: Reason::InCohortReclamation });
    assert_eq!(*verdict(&plan.explanation, "r-2"), Verdict::Filtered(Filter::NeverPreempt));
    assert_eq!(*verdict(&plan.explanation, "k-0"), Verdict::WithinNominal);
    assert_eq!(*verdict(&plan.explanation, "r-0"), Verdict::NotNeeded);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "it is stored as evidence: {text}");
}

#[test]
fn an_explanation_reports_that_it_is_shortened() {
    let settings = Settings { explain: 2, ..free() };

    let plan = reclaim(&lent(), &demand(2), &settings);

    assert!(plan.explanation.cut);
    assert_eq!(plan.explanation.candidates.len(), 2);
}

// ---------------------------------------------------------------- P-3

#[test]
fn a_filtered_candidate_is_not_evicted_and_is_listed_with_its_reason() {
    type Case = (fn(&mut Workload), Filter);
    let cases: [Case; 4] = [
        (|load| load.preemptible = false, Filter::NeverPreempt),
        (|load| load.checkpointing = true, Filter::Checkpointing),
        (|load| load.protected_until = Some(11 * HOUR), Filter::ProtectedLoan { until: 11 * HOUR }),
        (
            |load| (load.evicted, load.freeing_for) = (true, Some("d-2".to_owned())),
            Filter::InTransit { demand: "d-2".to_owned() },
        ),
    ];
    for (with, filter) in cases {
        let mut snapshot = lent();
        change(&mut snapshot, "r-3", with);

        let plan = reclaim(&snapshot, &demand(2), &free());

        assert_eq!(victims(&plan), ["r-2"], "{filter:?}");
        assert_eq!(*verdict(&plan.explanation, "r-3"), Verdict::Filtered(filter));
    }
}

#[test]
fn a_workload_below_its_minimum_runtime_is_not_evicted() {
    let mut snapshot = lent();
    let sharing = Sharing { min_runtime: Some(8 * HOUR), ..Sharing::default() };
    snapshot.set_policies("research", Preemption::default(), sharing).unwrap();

    let plan = reclaim(&snapshot, &demand(2), &free());

    assert_eq!(victims(&plan), ["r-2"]);
    assert_eq!(
        *verdict(&plan.explanation, "r-3"),
        Verdict::Filtered(Filter::MinRuntime { until: 11 * HOUR })
    );
    assert_eq!(why(&snapshot, &Demand { now: 0, ..demand(2) }, &free()), InfeasibleReason::NotEnough);
}

/// KAI resolves a minimum runtime at the workspace, or just below the cohort that both share.
#[test]
fn a_minimum_runtime_can_be_inherited_from_the_branch_below_the_common_cohort() {
    let mut snapshot = Snapshot::new();
    let least = |hours: i64| Sharing { min_runtime: Some(hours * HOUR), ..Sharing::default() };
    let policies = Preemption { reclaim_within_cohort: PreemptPolicy::Any, ..Preemption::default() };
    snapshot.add_cohort("acme", None, Sharing::default()).unwrap();
    snapshot.add_cohort("labs", Some("acme"), least(20)).unwrap();
    snapshot.add_workspace("production", Some("acme"), policies, Sharing::default()).unwrap();
    snapshot.add_workspace("research", Some("labs"), policies, least(1)).unwrap();
    snapshot.set_quota("production", &h100(), Quota { nominal: 2, ..Quota::default() }).unwrap();
    snapshot.admit(Workload::new("r-0", "research", gpus(2))).unwrap();

    let at_common = Settings { min_runtime_at: MinRuntimeAt::CommonCohort, ..free() };

    assert_eq!(victims(&reclaim(&snapshot, &demand(2), &free())), ["r-0"]);
    assert_eq!(why(&snapshot, &demand(2), &at_common), InfeasibleReason::NotEnough);
}

#[test]
fn a_workload_on_a_node_that_another_workflow_holds_is_not_evicted() {
    let mut snapshot = lent();
    change(&mut snapshot, "r-3", |load| load.parts = on("n-1", "r-3", "research", 2).parts);
    snapshot.set_node("n-1", Node { held_by: Some("incident-1".to_owned()), ..Node::default() });

    let plan = reclaim(&snapshot, &demand(2), &free());

    assert_eq!(victims(&plan), ["r-2"]);
    let held = Filter::NodeHeld { node: "n-1".to_owned(), by: "incident-1".to_owned() };
    assert_eq!(*verdict(&plan.explanation, "r-3"), Verdict::Filtered(held));
}

#[test]
fn workspaces_of_a_forbidden_pair_take_nothing_from_each_other() {
    let forbidden = [("production".to_owned(), "research".to_owned())].into();

    let error = plan(&lent(), &demand(2), &Settings { forbidden, ..free() }).unwrap_err();

    assert_eq!(error.why, InfeasibleReason::NotEnough);
    assert_eq!(*verdict(&error.explanation, "r-3"), Verdict::Filtered(Filter::ForbiddenPair));
}

// ---------------------------------------------------------------- P-5

fn gang(snapshot: &mut Snapshot, members: &[&str], min_available: u32) {
    for id in members {
        change(snapshot, id, |load| load.gang = Some(Gang { id: "train".to_owned(), min_available }));
    }
}

#[test]
fn a_gang_below_its_minimum_is_freed_as_a_whole() {
    let mut snapshot = lent();
    gang(&mut snapshot, &["r-1", "r-2", "r-3"], 2);

    let one = reclaim(&snapshot, &demand(2), &free());
    assert_eq!(victims(&one), ["r-3"], "two of three keep running");

    let two = reclaim(&snapshot, &demand(4), &free());
    assert_eq!(victims(&two), ["r-2", "r-3", "r-1"]);
    let freed: Vec<_> = two.victims.iter().map(|victim| victim.gang.as_deref()).collect();
    assert_eq!(freed, [None, Some("train"), Some("train")]);
}

#[test]
fn a_gang_with_a_protected_member_is_not_broken_up() {
    let mut snapshot = lent();
    gang(&mut snapshot, &["r-0", "r-3"], 2);
    change(&mut snapshot, "r-0", |load| load.preemptible = false);

    let plan = reclaim(&snapshot, &demand(2), &free());

    assert_eq!(victims(&plan), ["r-2"]);
    assert_eq!(*verdict(&plan.explanation, "r-3"), Verdict::Filtered(Filter::NeverPreempt));
}

// ---------------------------------------------------------------- P-6

/// Two nodes with four GPUs each, a workload of two on every half; the most recent ones are on different nodes.
fn on_two_nodes() -> Snapshot {
    let mut snapshot = tenant(&[("production", 8), ("research", 0)]);
    for (id, node, at) in [("r-0", "n-1", 4), ("r-1", "n-2", 3), ("r-2", "n-1", 1), ("r-3", "n-2", 2)] {
        snapshot.admit(Workload { reserved_at: at, ..on(node, id, "research", 2) }).unwrap();
    }
    snapshot.set_node("n-1", Node::default());
    snapshot.set_node("n-2", Node::default());
    snapshot
}

fn piece(count: u64) -> DemandPiece {
    DemandPiece { needs: gpus(count), on_one_gpu: false }
}

#[test]
fn victims_on_one_node_are_preferred_if_the_demand_needs_a_node() {
    let scattered = reclaim(&on_two_nodes(), &demand(4), &free());
    assert_eq!(victims(&scattered), ["r-0", "r-1"], "by quota, the most recent workloads are victims");

    let whole = reclaim(&on_two_nodes(), &Demand { pieces: vec![piece(4)], ..demand(4) }, &free());

    assert_eq!(victims(&whole), ["r-0", "r-2"]);
    assert_eq!(whole.placement, [PiecePlacement { piece: 0, node: "n-1".to_owned(), gpu: None }]);
    assert_eq!(whole.explanation.attempts.last().unwrap().nodes, Vec::<String>::new());
}

#[test]
fn a_node_is_freed_under_fair_sharing_too() {
    let pieces = vec![piece(4)];

    let plan = reclaim(&on_two_nodes(), &Demand { pieces, ..demand(4) }, &kueue(Algorithm::fair()));

    assert_eq!(victims(&plan), ["r-0", "r-2"]);
}

#[test]
fn quota_that_is_free_in_parts_is_combined() {
    let mut snapshot = on_two_nodes();
    snapshot.remove("r-0").unwrap();
    snapshot.remove("r-1").unwrap();
    for node in ["n-1", "n-2"] {
        snapshot.set_node(node, Node { free: gpus(2), ..Node::default() });
    }

    let small = plan(&snapshot, &Demand { pieces: vec![piece(2), piece(2)], ..demand(4) }, &free()).unwrap();
    let PlanAnswer::Fits { placement } = small else { panic!("{small:?}") };
    assert_eq!(placement.len(), 2);

    let whole = reclaim(&snapshot, &Demand { pieces: vec![piece(4)], ..demand(4) }, &free());
    assert_eq!(victims(&whole).len(), 1);
}

#[test]
fn a_demand_that_no_node_can_hold_is_fragmented() {
    let error = plan(&on_two_nodes(), &Demand { pieces: vec![piece(5)], ..demand(5) }, &free()).unwrap_err();

    assert_eq!(error.why, InfeasibleReason::Fragmentation);
    assert!(error.explanation.attempts.len() <= 2 * 9, "{:?}", error.explanation.attempts);
}

/// Slices are a separate resource: freeing all slices of a GPU makes no whole GPU, and slices of one GPU may be
/// required.
#[test]
fn freed_slices_count_on_their_own_gpu() {
    let slice = ResourceKind::slice("h100", "1g.10gb");
    let one = |count| Amounts::from([(slice.clone(), count)]);
    let mut snapshot = tenant(&[("production", 1), ("research", 0)]);
    snapshot.set_quota("production", &slice, Quota { nominal: 14, ..Quota::default() }).unwrap();
    snapshot.set_node("n-1", Node::default());
    for n in 0..4_u32 {
        let part = WorkloadPart { node: "n-1".to_owned(), gpu: Some(n % 2), amounts: one(3) };
        let load = Workload::new(&format!("s-{n}"), "research", one(3));
        snapshot.admit(Workload { parts: vec![part], reserved_at: i64::from(n), ..load }).unwrap();
    }
    let pieces = vec![DemandPiece { needs: one(6), on_one_gpu: true }];

    let plan_of_slices = reclaim(&snapshot, &Demand { pieces, requests: one(6), ..demand(0) }, &free());

    assert_eq!(
        victims(&plan_of_slices),
        ["s-3", "s-1"],
        "the most recent first, then the one on the same GPU"
    );
    assert_eq!(plan_of_slices.placement, [PiecePlacement { piece: 0, node: "n-1".to_owned(), gpu: Some(1) }]);
    let whole = Demand { pieces: vec![piece(1)], ..demand(1) };
    assert_eq!(why(&snapshot, &whole, &free()), InfeasibleReason::Fragmentation, "slices make no whole GPU");
}
