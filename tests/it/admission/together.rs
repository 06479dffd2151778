//! Owners with simultaneous demands are served by one reclaim: planned, fenced, freed and admitted.

use std::time::Duration;
use store::ExecutionId;
use tests::books::account::{self, World, gpus, h100, job, tenant, workspace};
use workflows::{
    reclaim::{PlanVerdict, PlannedReclaim, Reclaim, ReclaimCause, preview},
    scheduling::admission::*,
    tenancy::*,
};

const OWNERS: [&str; 3] = ["a", "b", "c"];

fn by() -> ExecutionId {
    ExecutionId::from_bytes([7; 16])
}

/// Three owners of four GPUs each, all lent one by one, and `rest` more GPUs that another workspace uses. All owners then
/// submit at once: one job of four, two jobs of two, and one job of four.
fn back_together(rest: u64) -> World {
    let nodes = u32::try_from((rest + 12).div_ceil(8)).unwrap();
    let mut world =
        World::new(nodes).with(&[("rest", gpus(rest, None, None)), ("borrower", gpus(0, None, None))]);
    world = world.with(&OWNERS.map(|name| (name, gpus(4, None, None))));
    world.submit(&job("rest", "rest", rest)).unwrap();
    for n in 0..12 {
        world.submit(&job("borrower", &format!("lent-{n:02}"), 1)).unwrap();
    }
    for (name, workload, gpus) in [("a", "a-0", 4), ("b", "b-0", 2), ("b", "b-1", 2), ("c", "c-0", 4)] {
        let asked = world.submit(&job(name, workload, gpus)).unwrap();
        assert_eq!(asked.admission.answer, AdmissionVerdict::Queue, "{workload}");
    }
    world
}

fn planned(world: &World) -> PlannedReclaim {
    let cause = ReclaimCause::Demand { workspace: workspace("a"), workload: "a-0".to_owned() };
    let reclaim = Reclaim::new(tenant(), h100(), cause);
    world.books.weigh(|view| preview(view, &reclaim)).unwrap().0.planned.unwrap()
}

fn fencing(planned: &PlannedReclaim) -> Fence {
    let fence = account::fencing(by(), "a", "a-0", names(planned).into_iter().collect());
    Fence { more: planned.more, others: planned.others.clone(), ..fence }
}

fn fenced(world: &mut World) -> PlannedReclaim {
    let planned = planned(world);
    let answer = world.decide(|view| fence(view, &fencing(&planned))).unwrap();
    assert_eq!(answer, FenceOutcome::Done { aside: 0, wanted: 4 });
    planned
}

fn free(world: &mut World, victims: &[String]) {
    for victim in victims {
        world.decide(|view| release_victim(view, &tenant(), by(), victim, VictimExit::Evicted)).unwrap();
        assert_eq!(world.violations(), Vec::<String>::new());
    }
}

fn names(planned: &PlannedReclaim) -> Vec<String> {
    planned.victims.iter().map(|victim| victim.workload.name.clone()).collect()
}

fn aside(world: &World) -> [u64; 3] {
    OWNERS.map(|name| world.balance(name).in_transit)
}

fn others(planned: &PlannedReclaim) -> Vec<(&str, u64)> {
    planned.others.iter().map(|served| (served.workload.as_str(), served.wanted)).collect()
}

fn runs(world: &World) -> Vec<&'static str> {
    let asked = ["a-0", "b-0", "b-1", "c-0"].into_iter();
    asked.filter(|name| world.workload(name).state == WorkloadState::Admitted).collect()
}

/// S-32: no owner waits for the reclaim of another, with its grace period, to end.
#[test]
fn one_reclaim_serves_owners_of_several_workspaces() {
    let mut world = back_together(52);

    let planned = fenced(&mut world);

    assert_eq!(
        (planned.verdict, planned.victims.len(), &planned.breaches),
        (PlanVerdict::Evict, 12, &vec![])
    );
    assert_eq!(others(&planned), [("b-0", 2), ("b-1", 2), ("c-0", 4)]);
    let victims = names(&planned);
    let taken = planned.explanation.candidates.iter();
    assert_eq!(taken.filter(|one| victims.contains(&one.workload)).count(), 12, "each is explained once");
    free(&mut world, &victims[..5]);
    assert_eq!(aside(&world), [4, 1, 0], "the demand is first");
    free(&mut world, &victims[5..9]);
    assert_eq!(
        (runs(&world), aside(&world)),
        (vec!["b-0", "b-1"], [4, 0, 1]),
        "each runs as soon as it has everything"
    );
    free(&mut world, &victims[9..]);
    assert_eq!((runs(&world), aside(&world)), (vec!["b-0", "b-1", "c-0"], [4, 0, 0]));

    let granted = world.decide(|view| grant(view, &tenant(), &h100(), by())).unwrap();

    assert!(matches!(granted, GrantOutcome::Done { .. }), "{granted:?}");
    assert_eq!((runs(&world).len(), aside(&world)), (4, [0, 0, 0]));
    assert!(world.books.all::<Loan>().iter().all(|loan| loan.state == LoanState::Returned));
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// I-10: GPUs freed for one workload go to no other, whatever its priority.
#[test]
fn a_later_workload_takes_nothing_from_a_served_demand() {
    let mut world = back_together(52);
    let planned = fenced(&mut world);
    world.submit(&WorkloadRequest { priority: 10, ..job("c", "c-later", 4) }).unwrap();

    free(&mut world, &names(&planned));

    assert_eq!(runs(&world), ["b-0", "b-1", "c-0"]);
    assert_eq!(world.workload("c-later").state, WorkloadState::Waiting);
}

/// The guard allows ten of 40 GPUs without an approval: enough for two owners.
#[test]
fn a_reclaim_adds_owners_only_while_no_approval_is_needed() {
    let planned = planned(&back_together(28));

    assert_eq!(others(&planned), [("b-0", 2), ("b-1", 2)]);
    assert_eq!((planned.victims.len(), planned.breaches), (8, vec![]));
}

/// The only victim for the demand exceeds the guard. The approvers decide on that victim only.
#[test]
fn an_approved_reclaim_does_not_grow() {
    let mut world = World::new(9).with(&[
        ("rest", gpus(59, None, None)),
        ("a", gpus(9, None, None)),
        ("b", gpus(4, None, None)),
        ("borrower", gpus(0, None, None)),
    ]);
    world.submit(&job("rest", "rest", 59)).unwrap();
    world.submit(&WorkloadRequest { priority: -1, ..job("borrower", "large", 9) }).unwrap();
    for n in 0..4 {
        world.submit(&job("borrower", &format!("lent-{n}"), 1)).unwrap();
    }
    for (name, workload, gpus) in [("a", "a-0", 9), ("b", "b-0", 4)] {
        let asked = world.submit(&job(name, workload, gpus)).unwrap();
        assert_eq!(asked.admission.answer, AdmissionVerdict::Queue, "{workload}");
    }

    let planned = planned(&world);

    assert_eq!((names(&planned), planned.others), (vec!["large".to_owned()], vec![]));
    assert!(!planned.breaches.is_empty());
}

#[test]
fn a_withdrawn_demand_releases_its_earmark() {
    let mut world = back_together(52);
    let planned = fenced(&mut world);
    free(&mut world, &names(&planned)[..10]);
    assert_eq!(aside(&world), [4, 0, 2]);

    world.finish("c-0").unwrap();

    assert_eq!(aside(&world), [4, 0, 0]);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// Earmarked GPUs would otherwise be borrowed with no running borrower, and a quota could not be lowered. Other demands are served
/// although this demand exceeds its quota now.
#[test]
fn other_owners_are_served_if_the_quota_of_the_demand_is_lowered() {
    let mut world = back_together(52);
    let planned = fenced(&mut world);
    free(&mut world, &names(&planned)[..5]);
    assert_eq!(aside(&world), [4, 1, 0]);

    world.allow("a", WorkspaceClass::Batch, gpus(0, None, None));

    assert_eq!(world.violations(), Vec::<String>::new());
    // The workloads of `b` fit on the free GPUs and run; the rest is earmarked for `c`.
    assert_eq!(aside(&world), [0, 0, 1]);
    free(&mut world, &names(&planned)[5..]);
    assert_eq!((runs(&world), aside(&world)), (vec!["b-0", "b-1", "c-0"], [0, 0, 0]));
}

/// Borrowing workloads of the same workspace do not use the earmark, and neither does a later quota change.
#[test]
fn an_earmark_stays_while_another_workload_of_the_workspace_borrows() {
    let mut world = back_together(52);
    let planned = fenced(&mut world);
    free(&mut world, &names(&planned)[..1]);
    world.finish("rest").unwrap();
    world.submit(&job("a", "a-borrows", 4)).unwrap();
    assert_eq!(world.workload("a-borrows").state, WorkloadState::Admitted);
    assert_eq!(aside(&world), [4, 0, 0], "the free GPUs are enough for all");

    world.allow("rest", WorkspaceClass::Batch, gpus(53, None, None));

    assert_eq!(world.violations(), Vec::<String>::new());
    assert_eq!(aside(&world), [4, 0, 0]);
    assert_eq!(world.balance("a").borrowed, 4);
}

/// The last victim's GPU cannot be used: the earmark of a workload that can get no more is dropped.
#[test]
fn a_demand_for_which_nothing_more_is_freed_waits_in_the_queue() {
    let mut world = back_together(52);
    let planned = fenced(&mut world);
    let victims = names(&planned);
    free(&mut world, &victims[..11]);
    assert_eq!(aside(&world), [4, 0, 3]);

    let placed = world.workload(&victims[11]).placed.remove(0);
    let gpu = *placed.gpus.keys().next().unwrap();
    world.decide(|view| bar_gpu(view, &tenant(), &placed.node, gpu, Some("not cleaned"))).unwrap();
    free(&mut world, &victims[11..]);

    assert_eq!(aside(&world), [4, 0, 0]);
    assert_eq!(world.workload("c-0").state, WorkloadState::Waiting);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// One victim does not end and another is fenced (P-8): the reclaim serves the same demands as before.
#[test]
fn a_second_earmark_does_not_change_the_others() {
    let mut world = back_together(52);
    let planned = fenced(&mut world);
    free(&mut world, &names(&planned)[..9]);

    let left = names(&planned)[9..].iter().cloned().collect();
    let again = Fence { others: Vec::new(), victims: left, ..fencing(&planned) };
    let answer = world.decide(|view| fence(view, &again)).unwrap();

    assert_eq!(answer, FenceOutcome::Done { aside: 4, wanted: 4 });
    free(&mut world, &names(&planned)[9..]);
    assert_eq!(runs(&world), ["b-0", "b-1", "c-0"]);
}

#[test]
fn a_cancelled_reclaim_releases_the_earmarks_of_all_owners() {
    let mut world = back_together(52);
    let planned = fenced(&mut world);
    free(&mut world, &names(&planned)[..10]);
    assert_eq!(aside(&world), [4, 0, 2]);

    let ended = world.decide(|view| unfence(view, &tenant(), &h100(), by())).unwrap();

    assert_eq!((ended.spared.len(), aside(&world)), (2, [0, 0, 0]));
    assert_eq!(world.violations(), Vec::<String>::new());
    assert_eq!(runs(&world), ["a-0", "b-0", "b-1"], "the GPU is granted to the owner for whom it is enough");
}

/// The account has changed: no GPUs are freed for a workload that has gone.
#[test]
fn a_plan_is_stale_once_its_demand_is_no_longer_queued() {
    let mut world = back_together(52);
    let planned = planned(&world);
    world.finish("c-0").unwrap();

    let answer = world.decide(|view| fence(view, &fencing(&planned))).unwrap();

    assert_eq!(answer, FenceOutcome::Stale { why: "c-0 does not wait in c".to_owned() });
    assert!(world.cohort().reclaims.is_empty());
}

/// A plan takes victims from a workspace as long as it exceeds its quota; in the order of their names the second would come from
/// a workspace within its quota.
#[test]
fn an_earmark_has_the_same_victims_as_its_plan_whatever_their_names() {
    let mut world = World::new(4).with(&[
        ("rest", gpus(16, None, None)),
        ("a", gpus(4, None, None)),
        ("b", gpus(4, None, None)),
        ("borrower", gpus(8, None, None)),
    ]);
    world.submit(&job("rest", "rest", 16)).unwrap();
    world.submit(&WorkloadRequest { preemptible: false, ..job("borrower", "own", 6) }).unwrap();
    world.submit(&job("borrower", "large", 4)).unwrap();
    world.pass(Duration::from_secs(1));
    world.submit(&job("borrower", "small", 1)).unwrap();
    world.submit(&job("a", "a-runs", 3)).unwrap();
    world.submit(&job("b", "b-runs", 2)).unwrap();
    for (name, workload, gpus) in [("a", "a-0", 1), ("b", "b-0", 2)] {
        let asked = world.submit(&job(name, workload, gpus)).unwrap();
        assert_eq!(asked.admission.answer, AdmissionVerdict::Queue, "{workload}");
    }

    let planned = planned(&world);
    let answer = world.decide(|view| fence(view, &fencing(&planned))).unwrap();

    assert_eq!(names(&planned), ["small", "large"]);
    assert_eq!(answer, FenceOutcome::Done { aside: 0, wanted: 1 });
}

/// One owner, a second whose work ends later, and a borrower of the owner's idle GPUs.
fn one_owner(nominal: u64, rest: &[u64], own: &[WorkloadRequest]) -> World {
    let mut world = World::new(2).with(&[
        ("a", gpus(nominal, None, None)),
        ("rest", gpus(rest.iter().sum(), None, None)),
        ("borrower", gpus(0, None, None)),
    ]);
    for (n, gpus) in rest.iter().enumerate() {
        world.submit(&job("rest", &format!("rest-{n}"), *gpus)).unwrap();
    }
    for request in own {
        world.submit(request).unwrap();
    }
    for n in 0..4 {
        let lent = world.submit(&job("borrower", &format!("lent-{n}"), 1)).unwrap();
        assert_eq!(lent.admission.answer, AdmissionVerdict::Admit);
    }
    world
}

/// I-11, S-59: the loan goes to the workload that may borrow.
#[test]
fn a_demand_that_may_not_borrow_keeps_its_earmark_while_others_borrow() {
    let mut world = one_owner(4, &[12], &[]);
    world.submit(&WorkloadRequest { preemptible: false, ..job("a", "a-0", 4) }).unwrap();
    let planned = fenced(&mut world);
    free(&mut world, &names(&planned));
    assert_eq!(world.balance("a").in_transit, 4);
    world.finish("rest-0").unwrap();
    let borrows = world.submit(&job("a", "a-borrows", 4)).unwrap();
    assert_eq!(borrows.admission.answer, AdmissionVerdict::Admit);

    let granted = world.decide(|view| grant(view, &tenant(), &h100(), by())).unwrap();

    assert!(matches!(granted, GrantOutcome::Done { admission: Some(_), .. }), "{granted:?}");
    assert_eq!(world.violations(), Vec::<String>::new());
    let open = world.books.all::<Loan>().into_iter().filter(|loan| !loan.state.is_ended());
    let open: Vec<_> = open.map(|loan| (loan.workload, loan.amount)).collect();
    assert_eq!(open, [("a-borrows".to_owned(), 4)]);
}

/// No workload is evicted for another borrower.
#[test]
fn no_earmark_is_made_for_a_demand_whose_workspace_has_used_its_quota_since_the_plan() {
    let mut world = one_owner(8, &[4], &[job("a", "a-runs", 4)]);
    world.allow("rest", WorkspaceClass::Batch, gpus(8, None, None));
    for n in 4..8 {
        world.submit(&job("borrower", &format!("lent-{n}"), 1)).unwrap();
    }
    world.submit(&job("a", "a-0", 4)).unwrap();
    let planned = planned(&world);
    assert_eq!(planned.victims.len(), 4);
    world.submit(&WorkloadRequest { priority: 10, ..job("a", "a-first", 4) }).unwrap();
    world.finish("rest-0").unwrap();
    assert_eq!(world.workload("a-first").state, WorkloadState::Admitted);

    let answer = world.decide(|view| fence(view, &fencing(&planned))).unwrap();

    assert!(matches!(answer, FenceOutcome::Stale { .. }), "{answer:?}");
}

/// S-59: a service does not become a borrower because of an earmark.
#[test]
fn nothing_is_earmarked_that_would_force_a_workload_to_borrow_that_may_not() {
    let service = WorkloadRequest { class: WorkloadClass::Service, ..job("a", "service", 4) };
    let mut world = one_owner(8, &[4, 4], &[service]);
    world.submit(&job("a", "a-0", 4)).unwrap();
    fenced(&mut world);
    world.finish("rest-0").unwrap();
    world.finish("rest-1").unwrap();
    assert_eq!(world.balance("a").in_transit, 4);

    world.allow("a", WorkspaceClass::Batch, gpus(4, None, None));

    assert_eq!(world.balance("a").in_transit, 0);
    assert_eq!(world.violations(), Vec::<String>::new());
    let loans = world.books.all::<Loan>();
    assert!(loans.iter().all(|loan| loan.workload != "service"), "{loans:?}");
}
