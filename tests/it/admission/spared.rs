//! Spared victims: just before its eviction begins, a victim is dropped if no demand lacks its GPUs any more.

use store::ExecutionId;
use tests::books::account::{self, World, gpus, h100, job, tenant, workspace};
use workflows::{scheduling::admission::*, tenancy::*};

const OWNERS: [&str; 2] = ["a", "b"];

fn by() -> ExecutionId {
    ExecutionId::from_bytes([7; 16])
}

fn victim(n: usize) -> String {
    format!("lent-{n}")
}

/// Two owners of four GPUs each, all lent one by one. Both need them again, and one reclaim with eight victims serves both. Another
/// workspace uses the eight GPUs of the first node.
fn both_back(demand: &WorkloadRequest) -> World {
    let mut world = lent();
    for request in [demand, &job("b", "b-0", 4)] {
        let asked = world.submit(request).unwrap();
        assert_eq!(asked.admission.answer, AdmissionVerdict::Queue, "{}", request.name);
    }
    called_back(&mut world, &fencing());
    world
}

fn lent() -> World {
    let mut world = World::new(2).with(&[("rest", gpus(8, None, None)), ("borrower", gpus(0, None, None))]);
    world = world.with(&OWNERS.map(|name| (name, gpus(4, None, None))));
    world.submit(&job("rest", "rest", 8)).unwrap();
    for n in 0..8 {
        world.submit(&job("borrower", &victim(n), 1)).unwrap();
    }
    world
}

fn called_back(world: &mut World, fencing: &Fence) {
    let fenced = world.decide(|view| fence(view, fencing)).unwrap();
    assert!(matches!(fenced, FenceOutcome::Done { aside: 0, .. }), "{fenced:?}");
}

fn fencing() -> Fence {
    let other = Beneficiary { workspace: workspace("b"), workload: "b-0".to_owned(), wanted: 4, aside: 0 };
    Fence { others: vec![other], ..account::fencing(by(), "a", "a-0", (0..8).map(victim).collect()) }
}

/// Begins these evictions; returns the spared victims.
fn drain(world: &mut World, victims: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut spared = Vec::new();
    for n in victims {
        let why = world.decide(|view| drain_victim(view, &tenant(), by(), &victim(n), false)).unwrap();
        let runs = world.workload(&victim(n)).state == WorkloadState::Admitted;
        assert_eq!(why.is_some(), runs, "{n}: {why:?}");
        assert_eq!(world.violations(), Vec::<String>::new());
        spared.extend(why.map(|_| n));
    }
    spared
}

fn free(world: &mut World, victims: impl IntoIterator<Item = usize>) {
    for n in victims {
        world.decide(|view| release_victim(view, &tenant(), by(), &victim(n), VictimExit::Evicted)).unwrap();
        assert_eq!(world.violations(), Vec::<String>::new());
    }
}

const NOBODY: [usize; 0] = [];

#[test]
fn all_victims_are_evicted_while_the_owners_that_returned_wait() {
    let mut world = both_back(&job("a", "a-0", 4));

    assert_eq!(drain(&mut world, 0..8), NOBODY);

    let draining = world.books.all::<Loan>().into_iter().filter(|loan| loan.state == LoanState::Draining);
    assert_eq!(draining.count(), 8);
}

/// Domain 3.5: victims whose eviction has not begun are released; the other evictions finish.
#[test]
fn no_victim_is_evicted_after_the_owners_that_returned_have_left() {
    let mut world = both_back(&job("a", "a-0", 4));
    assert_eq!(drain(&mut world, [3]), NOBODY);
    world.finish("a-0").unwrap();
    world.finish("b-0").unwrap();

    assert_eq!(drain(&mut world, [7, 0, 1, 2, 4, 5, 6]), [7, 0, 1, 2, 4, 5, 6]);

    let loans = world.books.all::<Loan>();
    assert_eq!(loans.iter().filter(|loan| loan.state == LoanState::Active).count(), 7);
    free(&mut world, [3]);
    let ended = world.decide(|view| unfence(view, &tenant(), &h100(), by())).unwrap();
    assert!(ended.spared.is_empty());
    assert_eq!(world.balance("borrower").used, 7);
    assert!(world.cohort().reclaims.is_empty());
}

/// The GPUs of other victims may never be freed, and a demand that counted on them would wait for another grace period.
#[test]
fn victims_are_evicted_only_while_a_served_demand_lacks_gpus() {
    let mut world = both_back(&job("a", "a-0", 4));
    world.finish("a-0").unwrap();

    assert_eq!(drain(&mut world, 0..4), NOBODY);
    free(&mut world, 0..3);
    assert_eq!(drain(&mut world, [4]), NOBODY);
    free(&mut world, [3]);

    assert_eq!(world.workload("b-0").state, WorkloadState::Admitted);
    assert_eq!(drain(&mut world, 5..8), [5, 6, 7]);
}

#[test]
fn no_victim_is_evicted_for_gpus_that_became_free_elsewhere() {
    let mut world = both_back(&job("a", "a-0", 4));
    world.finish("rest").unwrap();

    assert_eq!(drain(&mut world, 0..8), Vec::from_iter(0..8));

    let granted = world.decide(|view| grant(view, &tenant(), &h100(), by())).unwrap();
    assert!(matches!(granted, GrantOutcome::Done { admission: Some(_), .. }), "{granted:?}");
    assert_eq!(world.workload("b-0").state, WorkloadState::Admitted);
    assert_eq!(world.balance("borrower").used, 8);
}

/// Three GPUs are free on one node and one on the other.
#[test]
fn all_victims_are_evicted_if_the_free_gpus_are_not_available_together() {
    let mut world = both_back(&WorkloadRequest { together: 4, ..job("a", "a-0", 4) });
    world.finish("b-0").unwrap();
    let node: NodeId = world.workload("rest").placed[0].node.clone();
    for gpu in 0..5 {
        world.decide(|view| bar_gpu(view, &tenant(), &node, gpu, Some("it failed"))).unwrap();
    }
    world.finish("rest").unwrap();
    free(&mut world, [0]);
    assert_eq!(world.balance("a").in_transit, 4);

    assert_eq!(drain(&mut world, 1..8), NOBODY);
}

/// The planner chose victims for both resources.
#[test]
fn all_victims_are_evicted_for_a_demand_that_lacks_another_gpu_model() {
    let slice: Resource = "gpu/H100/1g.10gb".parse().unwrap();
    let both = |gpus: u64, slices: u64| {
        let own = |nominal| Allowance { nominal, borrowing_limit: None, lending_limit: None };
        Allowances::from([(h100(), own(gpus)), (slice.clone(), own(slices))])
    };
    let mut world = lent();
    world.add_nodes(2..3);
    let (node, profile) = ("n-0002".parse().unwrap(), "1g.10gb".parse().unwrap());
    world.decide(|view| cut_gpus(view, &tenant(), &node, &[0].into(), Some((&profile, 7)))).unwrap();
    world.allow("rest", WorkspaceClass::Batch, both(15, 0));
    world.allow("a", WorkspaceClass::Batch, both(4, 2));
    world.see();
    world.submit(&job("rest", "rest-1", 7)).unwrap();
    let sliced =
        |name: &str, amount| [(slice.clone(), amount)].into_iter().chain((name == "a").then(|| (h100(), 4)));
    for (name, workload, amount) in [("borrower", "lent-9", 2), ("a", "a-0", 2)] {
        let request = WorkloadRequest { requests: sliced(name, amount).collect(), ..job(name, workload, 0) };
        let asked = world.submit(&request).unwrap();
        assert_eq!(
            asked.admission.answer == AdmissionVerdict::Queue,
            name == "a",
            "{:?}",
            asked.admission.weighed
        );
    }
    let victims = (0..4).chain([9]).map(victim).collect();
    called_back(&mut world, &Fence { others: Vec::new(), victims, ..fencing() });
    world.finish("rest").unwrap();
    assert_eq!(world.balance("a").in_transit, 4, "of one resource it has everything");

    assert_eq!(drain(&mut world, [9, 0]), NOBODY);
}

/// A reclaim also serves other workloads of the demand's queue.
#[test]
fn all_victims_are_evicted_for_another_workload_of_the_queue() {
    let mut world = lent();
    for name in ["a-0", "a-1"] {
        assert_eq!(world.submit(&job("a", name, 2)).unwrap().admission.answer, AdmissionVerdict::Queue);
    }
    let victims = (0..4).map(victim).collect();
    called_back(&mut world, &Fence { more: 2, others: Vec::new(), victims, ..fencing() });

    world.finish("a-0").unwrap();
    assert_eq!(drain(&mut world, [0, 1]), NOBODY);
    free(&mut world, [0, 1]);
    assert_eq!(world.workload("a-1").state, WorkloadState::Admitted);
    assert_eq!(drain(&mut world, [2, 3]), [2, 3]);
}

/// The eviction finds out if it has ended; if it has, no other path would put it back into the queue.
#[test]
fn a_victim_that_is_reported_as_ended_is_not_spared() {
    let mut world = both_back(&job("a", "a-0", 4));
    world.finish("a-0").unwrap();
    world.finish("b-0").unwrap();

    let spared = world.decide(|view| drain_victim(view, &tenant(), by(), &victim(0), true)).unwrap();

    assert_eq!(spared, None);
    assert_eq!(world.workload(&victim(0)).state, WorkloadState::Reclaimed { by: by() });
}

#[test]
fn loans_are_recalled_also_without_a_particular_beneficiary() {
    let mut world = both_back(&job("a", "a-0", 4));
    world.decide(|view| unfence(view, &tenant(), &h100(), by())).unwrap();
    world.finish("a-0").unwrap();
    world.finish("b-0").unwrap();
    called_back(&mut world, &Fence { workload: None, others: Vec::new(), ..fencing() });

    assert_eq!(drain(&mut world, 0..8), NOBODY);
}

/// The execution asks again after a crash.
#[test]
fn the_same_question_about_a_victim_has_the_same_answer() {
    let mut world = both_back(&job("a", "a-0", 4));
    assert_eq!(drain(&mut world, [0, 0]), NOBODY);
    world.finish("a-0").unwrap();
    world.finish("b-0").unwrap();

    assert_eq!(drain(&mut world, [7, 7]), [7, 7]);
}
