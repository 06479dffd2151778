//! A blocking guard of policy: a reclaim wider than the guard is never put to approvers.

use tests::books::account::{World, gpus, h100, job, tenant, workspace};
use workflows::{
    policy::{PlatformPolicy, publish},
    reclaim::{PlanVerdict, PlannedReclaim, Reclaim, ReclaimCause, preview},
};

/// An owner of four GPUs, all lent one by one, under a policy with these changes.
fn lent(changes: &[(&str, &str)]) -> World {
    let mut world = World::new(3).with(&[
        ("rest", gpus(20, None, None)),
        ("a", gpus(4, None, None)),
        ("borrower", gpus(0, None, None)),
    ]);
    let text = PlatformPolicy::amended(changes).unwrap();
    world.decide(|view| publish(view, &text, "test")).unwrap();
    world.submit(&job("rest", "rest", 20)).unwrap();
    for n in 0..4 {
        world.submit(&job("borrower", &format!("lent-{n}"), 1)).unwrap();
    }
    world.submit(&job("a", "a-0", 4)).unwrap();
    world
}

fn planned(world: &World) -> PlannedReclaim {
    let cause = ReclaimCause::Demand { workspace: workspace("a"), workload: "a-0".to_owned() };
    let reclaim = Reclaim::new(tenant(), h100(), cause);
    world.books.weigh(|view| preview(view, &reclaim)).unwrap().0.planned.unwrap()
}

/// S-90, P-4.
#[test]
fn a_blocking_guard_stops_a_reclaim_that_approvers_could_otherwise_allow() {
    let narrow = ("ratio: 2, share: 0.25", "ratio: 2, share: 0.1");
    let block = ("reclaim_wider_than_guard: approve", "reclaim_wider_than_guard: block");

    let asked = planned(&lent(&[narrow]));
    let blocked = planned(&lent(&[narrow, block]));

    assert_eq!(
        (asked.verdict, asked.breaches.is_empty(), asked.victims.len()),
        (PlanVerdict::Evict, false, 4)
    );
    assert_eq!((blocked.verdict, blocked.victims.len()), (PlanVerdict::Infeasible, 0));
    let why = blocked.why.unwrap();
    assert!(why.contains("guard.reclaim_wider_than_guard") && why.contains("line "), "{why}");
}

/// Policy approves a reclaim within the guard: an owner gets its nominal quota back without an approval.
#[test]
fn an_owner_gets_its_own_quota_back_without_approval_within_the_guard() {
    let block = ("reclaim_wider_than_guard: approve", "reclaim_wider_than_guard: block");

    let planned = planned(&lent(&[block]));

    assert_eq!((planned.verdict, planned.victims.len()), (PlanVerdict::Evict, 4));
    assert!(planned.breaches.is_empty(), "{:?}", planned.breaches);
}
