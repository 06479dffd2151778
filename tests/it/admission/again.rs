//! A second plan of a reclaim, when a victim does not end or its GPUs cannot be used.

use std::collections::BTreeSet;
use store::ExecutionId;
use tests::books::account::{World, fencing, gpus, h100, job, tenant, workspace};
use workflows::{
    reclaim::{EvictionEnd as Ended, PlanVerdict, PlannedReclaim, Reclaim, ReclaimCause, preview},
    scheduling::admission::*,
    tenancy::*,
};

fn by() -> ExecutionId {
    ExecutionId::from_bytes([7; 16])
}

/// Owners of four and two GPUs, all lent one by one, and a third workspace that uses the other 18.
fn lent() -> World {
    let mut world = World::new(3).with(&[
        ("rest", gpus(18, None, None)),
        ("a", gpus(4, None, None)),
        ("b", gpus(2, None, None)),
        ("borrower", gpus(0, None, None)),
    ]);
    world.submit(&job("rest", "rest", 18)).unwrap();
    for n in 0..6 {
        world.submit(&job("borrower", &format!("lent-{n}"), 1)).unwrap();
    }
    world
}

fn reclaim() -> Reclaim {
    let cause = ReclaimCause::Demand { workspace: workspace("a"), workload: "a-0".to_owned() };
    Reclaim::new(tenant(), h100(), cause)
}

fn plan(world: &World, reclaim: &Reclaim) -> PlannedReclaim {
    world.books.weigh(|view| preview(view, reclaim)).unwrap().0.planned.unwrap()
}

fn names(planned: &PlannedReclaim) -> BTreeSet<String> {
    planned.victims.iter().map(|victim| victim.workload.name.clone()).collect()
}

fn fenced(world: &mut World, planned: &PlannedReclaim) {
    let fencing = fencing(by(), "a", "a-0", names(planned));
    let answer = world.decide(|view| fence(view, &fencing)).unwrap();
    assert!(matches!(answer, FenceOutcome::Done { .. }), "{answer:?}");
}

fn free(world: &mut World, victim: &str) {
    world.decide(|view| release_victim(view, &tenant(), by(), victim, VictimExit::Evicted)).unwrap();
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// The owner needs its GPUs, and three of the four victims have ended; returns the fourth.
fn three_of_four(world: &mut World, together: u64) -> (Reclaim, String) {
    let asked = world.submit(&WorkloadRequest { together, ..job("a", "a-0", 4) }).unwrap();
    assert_eq!(asked.admission.answer, AdmissionVerdict::Queue);
    let planned = plan(world, &reclaim());
    assert_eq!((planned.verdict, planned.victims.len()), (PlanVerdict::Evict, 4), "{:?}", planned.why);
    fenced(world, &planned);
    let mut victims = names(&planned);
    let last = victims.pop_last().unwrap();
    for victim in &victims {
        free(world, victim);
    }
    assert_eq!(world.balance("a").in_transit, 3);
    (Reclaim { begun: true, planned: Some(planned), ..reclaim() }, last)
}

fn granted(world: &mut World) {
    let granted = world.decide(|view| grant(view, &tenant(), &h100(), by())).unwrap();
    assert!(matches!(granted, GrantOutcome::Done { admission: Some(_), .. }), "{granted:?}");
    assert_eq!(world.workload("a-0").state, WorkloadState::Admitted);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// P-8: GPUs that are already earmarked belong to the demand and do not count as other use of its workspace.
#[test]
fn one_victim_is_enough_to_replace_a_victim_that_does_not_end() {
    for together in [0, 2] {
        let mut world = lent();
        let (mut reclaim, last) = three_of_four(&mut world, together);
        reclaim.ended =
            vec![Ended { workload: last.clone(), state: "Stuck".to_owned(), scrubbed: Vec::new() }];

        let further = plan(&world, &reclaim);

        assert_eq!(
            (further.verdict, further.victims.len()),
            (PlanVerdict::Evict, 1),
            "{together}: {:?}",
            further.why
        );
        assert!(!names(&further).contains(&last));
        fenced(&mut world, &further);
        free(&mut world, &further.victims[0].workload.name);
        if together == 0 {
            granted(&mut world);
        }
    }
}

/// The account promises a GPU that cannot be used: another borrower is reclaimed from to replace it.
#[test]
fn another_victim_is_evicted_if_the_gpus_of_the_first_cannot_be_used() {
    let mut world = lent();
    let (reclaim, last) = three_of_four(&mut world, 0);
    let placed = world.workload(&last).placed.remove(0);
    let gpu = *placed.gpus.keys().next().unwrap();
    world.decide(|view| bar_gpu(view, &tenant(), &placed.node, gpu, Some("not cleaned"))).unwrap();
    free(&mut world, &last);

    let further = plan(&world, &reclaim);

    assert_eq!((further.verdict, further.victims.len()), (PlanVerdict::Evict, 1), "{:?}", further.why);
    fenced(&mut world, &further);
    free(&mut world, &further.victims[0].workload.name);
    granted(&mut world);
}

/// S-29: a node is out of service, and the remaining GPUs are lent.
#[test]
fn an_owner_gets_its_own_quota_of_the_remaining_gpus() {
    let mut world = lent();
    let used: BTreeSet<NodeId> =
        (0..6).map(|n| world.workload(&format!("lent-{n}")).placed[0].node.clone()).collect();
    world.finish("rest").unwrap();
    let idle = world.occupancy().nodes.into_keys().filter(|node| !used.contains(node)).collect::<Vec<_>>();
    world.decide(|view| rest_nodes(view, &tenant(), &idle)).unwrap();
    let left: u64 = world.cohort().stock[&h100()].free;
    world.submit(&job("rest", "fills", left)).unwrap();
    world.see();
    let asked = world.submit(&job("a", "a-0", 4)).unwrap();
    assert_eq!(asked.admission.answer, AdmissionVerdict::Queue, "{:?}", asked.admission.weighed);
    assert_eq!(asked.news.demands.len(), 1);

    let planned = plan(&world, &reclaim());

    assert_eq!((planned.verdict, planned.victims.len()), (PlanVerdict::Evict, 4), "{:?}", planned.why);
    fenced(&mut world, &planned);
    for victim in names(&planned) {
        free(&mut world, &victim);
    }
    granted(&mut world);
}
