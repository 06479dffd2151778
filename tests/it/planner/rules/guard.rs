//! The guard: which plans need an approval, or are refused.

use super::{HOUR, change, demand, lent, why};
use crate::planner::{gpus, h100, reclaim, tenant, verdict, victims};
use workflows::scheduling::planner::*;

/// KAI#1565: a request of 48 GPUs evicted 376.
#[test]
fn a_plan_that_frees_far_more_than_requested_needs_an_approval() {
    let mut snapshot = tenant(&[("production", 376), ("research", 0)]);
    for n in 0..47 {
        snapshot
            .admit(Workload { checkpoints: true, ..Workload::new(&format!("r-{n:02}"), "research", gpus(8)) })
            .unwrap();
    }
    let guard = Guard { share_percent: 100, ratio_percent: 200, ..Guard::default() };
    let settings = Settings { guard: Some(guard.clone()), ..Settings::default() };

    let small = reclaim(&snapshot, &demand(48), &settings);
    assert!(!small.needs_approval(), "{:?}", small.breaches);

    let one = reclaim(&snapshot, &demand(3), &settings);
    let ratio =
        Breach::Ratio { resource: "nvidia.com/gpu".to_owned(), victims: 8, requested: 3, percent: 200 };
    assert_eq!(one.breaches, std::slice::from_ref(&ratio));
    assert!(one.needs_approval());

    let hard = Settings { guard: Some(Guard { hard: true, ..guard }), ..Settings::default() };
    assert_eq!(why(&snapshot, &demand(3), &hard), InfeasibleReason::Guard { breaches: vec![ratio] });
}

#[test]
fn a_plan_that_frees_a_large_part_of_the_tenant_needs_an_approval() {
    let settings = Settings::default();

    assert!(!reclaim(&lent(), &demand(2), &settings).needs_approval());
    let plan = reclaim(&lent(), &demand(4), &settings);

    let share = Breach::TenantShare { kind: h100(), victims: 4, capacity: 8, percent: 25 };
    assert_eq!(plan.breaches, [share]);
}

#[test]
fn a_large_or_long_running_victim_needs_an_approval() {
    let guard = Guard { share_percent: 100, ..Guard::default() };
    let settings = Settings { guard: Some(guard.clone()), ..Settings::default() };
    let mut snapshot = tenant(&[("production", 9), ("research", 0)]);
    snapshot.admit(Workload::new("r-0", "research", gpus(9))).unwrap();

    let later = Demand { now: 25 * HOUR, ..demand(9) };
    let plan = reclaim(&snapshot, &later, &settings);
    assert_eq!(
        plan.breaches,
        [
            Breach::LargeVictim { workload: "r-0".to_owned(), gpus: 9, most: 8 },
            Breach::LongRunning { workload: "r-0".to_owned(), ran: 25 * HOUR, most: 24 * HOUR },
        ]
    );

    change(&mut snapshot, "r-0", |load| load.checkpoints = true);
    assert_eq!(
        reclaim(&snapshot, &later, &settings).breaches.len(),
        1,
        "age does not matter after a checkpoint"
    );
}

#[test]
fn a_hard_guard_skips_only_candidates_that_violate_it() {
    let mut snapshot = tenant(&[("production", 10), ("research", 0)]);
    snapshot.admit(Workload { reserved_at: HOUR, ..Workload::new("big", "research", gpus(9)) }).unwrap();
    snapshot.admit(Workload::new("small", "research", gpus(1))).unwrap();
    let guard = Guard { hard: true, share_percent: 100, ..Guard::default() };

    let plan = reclaim(&snapshot, &demand(1), &Settings { guard: Some(guard), ..Settings::default() });

    assert_eq!(victims(&plan), ["small"]);
    assert_eq!(*verdict(&plan.explanation, "big"), Verdict::Filtered(Filter::Guard));
}
