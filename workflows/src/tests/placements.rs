//! Bookings follow the observed GPUs of workloads, and GPUs that were not cleaned are barred.

use super::books::{Books, h100, seen, tenant};
use crate::{
    platform::{GpuSet, ObservedGpus},
    reclaim::{
        PlanVerdict, Reclaim, ReclaimCause,
        eviction::ledger::{BarGpus, FreeVictim},
        preview,
    },
    scheduling::admission::{self, Fence, VictimExit},
    sweeps::record_missed,
    tenancy::{NodeId, SeenGpu, WorkloadState},
};
use engine::{HOUR, Notification};
use std::collections::BTreeSet;
use store::{ExecutionId, Timestamp};

fn reclaim() -> ExecutionId {
    ExecutionId::from_bytes([7; 16])
}

/// Reclaims GPUs for a demand of `owner` from `victim`, which runs on lent GPUs.
fn fence(books: &mut Books, demand: &str, victim: &str) {
    let fence = Fence {
        tenant: tenant(),
        resource: h100(),
        execution: reclaim(),
        workspace: "owner".parse().unwrap(),
        workload: Some(demand.to_owned()),
        more: 0,
        others: Vec::new(),
        victims: [victim.to_owned()].into(),
        deadline: Timestamp::default(),
    };
    let fenced = books.decide(|view| admission::fence(view, &fence));
    assert!(matches!(fenced, admission::FenceOutcome::Done { .. }), "{fenced:?}");
}

fn on(node: &str, gpus: &[u16]) -> GpuSet {
    [(node.to_owned(), gpus.iter().copied().collect())].into()
}

fn bar(books: &mut Books, workload: &str, observed: GpuSet, earlier: GpuSet) {
    // Parsed from the stored form, because only code that has observed GPUs may construct the type.
    let observed: ObservedGpus = serde_json::from_value(serde_json::json!(observed)).unwrap();
    let bar = BarGpus { tenant: tenant(), workload: workload.to_owned(), observed, earlier };
    books.decide(|view| bar.bar(view, ExecutionId::from_bytes([9; 16])));
}

/// Returns a ledger where one of four lent GPUs and one of four own GPUs are in use. Each workload runs at the place that is planned for the other.
fn swapped_beside_a_demand() -> Books {
    let mut books = Books::new(1, &[("owner", 4), ("other", 4)]);
    books.submit("other", "own", 4);
    books.submit("other", "lent", 4);
    books.submit("owner", "demand", 4);
    assert_eq!(books.booked("lent", "n-0"), [4, 5, 6, 7].into());
    fence(&mut books, "demand", "lent");
    books
}

#[test]
fn a_booking_moves_to_the_observed_gpus_of_its_workload_also_on_the_same_node() {
    let mut books = Books::new(1, &[("one", 4), ("two", 4)]);
    books.submit("one", "a", 2);
    books.submit("two", "b", 2);

    let result = books.observe(&[seen("a", "n-0", &[2, 7])]);

    assert_eq!(result.moved, ["a".to_owned()].into());
    assert_eq!(books.booked("a", "n-0"), [2, 7].into());
    assert_eq!(books.booked("b", "n-0").intersection(&[2, 7].into()).count(), 0, "a plan makes way");
    assert_eq!(books.booked("b", "n-0").len(), 2);
    assert_eq!(books.violations(), Vec::<String>::new());
    assert_eq!(books.observe(&[seen("a", "n-0", &[2, 7])]).moved, BTreeSet::new(), "it is there already");
}

#[test]
fn uncleaned_gpus_are_barred_and_no_workload_is_booked_on_them() {
    let mut books = swapped_beside_a_demand();

    bar(&mut books, "lent", on("n-0", &[0, 1, 2, 3]), GpuSet::new());

    assert_eq!(books.barred("n-0"), [0, 1, 2, 3].into());
    assert_eq!(books.booked("own", "n-0"), [4, 5, 6, 7].into(), "its booking is not on a dirty GPU");
    assert_eq!(books.workload("lent").state, WorkloadState::Waiting);
    assert_eq!(books.workload("demand").state, WorkloadState::Waiting, "no clean GPU is free");
    assert_eq!(books.violations(), Vec::<String>::new());
}

#[test]
fn no_workload_is_admitted_to_a_dirty_gpu_before_all_of_them_are_barred() {
    let mut books = Books::new(1, &[("owner", 2), ("other", 2), ("third", 4)]);
    books.submit("other", "lent", 4);
    books.submit("third", "own", 4);
    books.submit("owner", "demand", 2);
    fence(&mut books, "demand", "lent");
    assert_eq!(books.booked("lent", "n-0"), [0, 1, 2, 3].into());
    books.decide(|view| admission::finish(view, &tenant(), "own"));

    bar(&mut books, "lent", on("n-0", &[2, 3, 4, 5]), GpuSet::new());

    assert_eq!(books.barred("n-0"), [2, 3, 4, 5].into());
    let on_dirty = |name: &str| books.booked(name, "n-0").iter().any(|gpu| (2..=5).contains(gpu));
    assert!(!on_dirty("demand") && !on_dirty("lent"));
    assert_eq!(books.violations(), Vec::<String>::new());
}

#[test]
fn gpus_due_for_cleaning_are_barred_also_after_the_victim_has_ended_or_moved() {
    let mut ended = swapped_beside_a_demand();
    ended.decide(|view| admission::finish(view, &tenant(), "lent"));
    bar(&mut ended, "lent", on("n-0", &[4, 5]), GpuSet::new());
    assert_eq!(ended.barred("n-0"), [4, 5].into());
    assert_eq!(ended.violations(), Vec::<String>::new());

    // An eviction of an earlier version cleans the GPUs of its plan, even if the booking has moved since.
    let mut moved = swapped_beside_a_demand();
    moved.observe(&[seen("lent", "n-0", &[0, 1, 2, 3]), seen("own", "n-0", &[4, 5, 6, 7])]);
    bar(&mut moved, "lent", GpuSet::new(), on("n-0", &[4, 5, 6, 7]));
    assert_eq!(moved.barred("n-0"), [4, 5, 6, 7].into());
    assert_eq!(moved.violations(), Vec::<String>::new());
}

/// An eviction of an earlier version checked the GPUs of its plan. The GPUs in later facts were not checked.
#[test]
fn gpus_left_dirty_by_an_earlier_version_are_barred_when_their_victim_is_freed() {
    let mut books = swapped_beside_a_demand();
    books.observe(&[seen("lent", "n-0", &[0, 1, 2, 3]), seen("own", "n-0", &[4, 5, 6, 7])]);
    assert_eq!(books.booked("lent", "n-0"), [0, 1, 2, 3].into());

    let free = |earlier: GpuSet| FreeVictim {
        tenant: tenant(),
        workload: "lent".into(),
        observed: ObservedGpus::default(),
        earlier,
    };
    let freed = free(on("n-0", &[2, 3, 4, 5]));
    books.decide(|view| freed.free(view));

    assert_eq!(books.barred("n-0"), [0, 1].into(), "two of its GPUs were cleaned");
    assert_eq!(books.workload("lent").state, WorkloadState::Waiting);
    assert_eq!(books.workload("demand").state, WorkloadState::Waiting, "two clean GPUs are free, of four");
    assert_eq!(books.violations(), Vec::<String>::new());

    let mut stayed = swapped_beside_a_demand();
    let freed = free(on("n-0", &[4, 5, 6, 7]));
    stayed.decide(|view| freed.free(view));
    assert_eq!(stayed.barred("n-0"), BTreeSet::new(), "all that it was booked on was cleaned");
}

#[test]
fn operators_are_notified_of_dirty_gpus_that_are_not_in_the_ledger() {
    let mut books = swapped_beside_a_demand();

    bar(&mut books, "lent", on("gone", &[3]), GpuSet::new());

    let told = books.all::<Notification>();
    assert!(told.iter().any(|one| one.kind == "gpus.not_barred" && one.text.contains("gone/3")), "{told:?}");
    assert_eq!(books.workload("lent").state, WorkloadState::Waiting);
}

/// An observation has priority over a node that is out of service. The drain finds the workload there, and one notification is sent.
#[test]
fn a_workload_observed_on_a_resting_node_is_booked_there_and_reported() {
    let mut books = Books::new(2, &[("one", 8)]);
    books.submit("one", "a", 4);
    let rests = if books.booked("a", "n-0").is_empty() { "n-0" } else { "n-1" };
    let id: NodeId = rests.parse().unwrap();
    books.decide(|view| admission::rest_nodes(view, &tenant(), std::slice::from_ref(&id)).map(drop));

    let result = books.observe(&[seen("a", rests, &[0, 1, 2, 3])]);

    assert_eq!(result.resting, [(id.clone(), ["a".to_owned()].into())].into());
    assert_eq!(books.booked("a", rests), [0, 1, 2, 3].into());
    let running = books.decide(|view| admission::rest_nodes(view, &tenant(), std::slice::from_ref(&id)));
    assert_eq!(running[&id], ["a".to_owned()].into(), "a drain finds it");
    assert_eq!(books.violations(), Vec::<String>::new());
    assert!(books.observe(&[seen("a", rests, &[0, 1, 2, 3])]).resting.is_empty(), "once");
    let told = books.all::<Notification>();
    assert_eq!(told.iter().filter(|one| one.kind == "workload.on_resting_node").count(), 1, "{told:?}");
}

#[test]
fn a_workload_observed_on_a_barred_gpu_is_reported_and_the_gpu_stays_barred() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "a", 2);
    books.decide(|view| {
        admission::bar_gpu(view, &tenant(), &"n-0".parse().unwrap(), 7, Some("not cleaned")).map(drop)
    });

    let result = books.observe(&[seen("a", "n-0", &[6, 7])]);

    assert_eq!(result.resting.len(), 1);
    assert_eq!((books.booked("a", "n-0"), books.barred("n-0")), ([6, 7].into(), [7].into()));
    assert_eq!(books.violations(), Vec::<String>::new());
}

/// After a new enumeration a node has its GPUs at other indexes. A GPU that was not cleaned is assigned to no workload at its new index.
#[test]
fn an_uncleaned_gpu_is_not_lent_even_after_its_node_is_enumerated_again() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "runs", 2);
    books.submit("one", "gone", 1);
    let on = books.booked("gone", "n-0").into_iter().next().unwrap();
    books.observe(&[seen("gone", "n-0", &[on])]);
    books.decide(|view| admission::finish(view, &tenant(), "gone"));
    let node: NodeId = "n-0".parse().unwrap();
    let dirty = [(node.clone(), on)];
    books.decide(|view| {
        admission::bar_gpus_after(view, &tenant(), &dirty, "gone", "not cleaned after gone").map(drop)
    });
    assert_eq!(books.barred("n-0"), [on].into());

    // Another GPU has its index, so its own index is unknown.
    let mut moved = seen("runs", "n-0", &[on, 7]);
    moved.gpus = [("GPU-x", on), ("GPU-y", 7)]
        .map(|(uuid, index)| SeenGpu { uuid: uuid.to_owned(), index: Some(index) })
        .into();
    books.observe(&[moved]);

    let barred = books.barred("n-0");
    assert_eq!(barred, (0..8).filter(|index| ![on, 7].contains(index)).collect());
    books.submit("one", "next", 1);
    assert!(books.booked("next", "n-0").is_disjoint(&barred), "it is lent to nobody");
    assert_eq!(books.violations(), Vec::<String>::new());
}

/// S-38, P-6: GPUs are reclaimed only for a demand that fits a node.
#[test]
fn a_demand_that_fits_no_node_recalls_no_loan() {
    let mut books = Books::new(1, &[("owner", 8), ("other", 0)]);
    books.submit("other", "lent", 8);
    assert_eq!(books.workload("lent").state, WorkloadState::Admitted);
    books.decide(|view| {
        admission::bar_gpu(view, &tenant(), &"n-0".parse().unwrap(), 7, Some("not cleaned")).map(drop)
    });

    let wide = books.submit("owner", "wide", 8);
    assert_eq!(wide.news.demands, Vec::new(), "seven GPUs are in service");
    let demand = |workload: &str| ReclaimCause::Demand {
        workspace: "owner".parse().unwrap(),
        workload: workload.to_owned(),
    };
    let asked = Reclaim::new(tenant(), h100(), demand("wide"));
    let planned = books.decide(|view| preview(view, &asked)).planned.unwrap();
    assert_eq!(planned.verdict, PlanVerdict::Infeasible);
    assert!(planned.why.is_some_and(|why| why.contains("gpu/H100")));

    let open = books.decide(|view| admission::bar_gpu(view, &tenant(), &"n-0".parse().unwrap(), 7, None));
    assert_eq!(open.demands.len(), 1, "it is a demand as soon as a node could take it");
}

/// The deadline counts from the time when the demand waits within its own quota, even while its node is out of service.
#[test]
fn a_demand_that_waits_for_a_resting_node_keeps_its_deadline() {
    let mut books = Books::new(2, &[("owner", 16), ("other", 0)]);
    books.submit("other", "lent", 8);
    let rests = if books.booked("lent", "n-0").is_empty() { "n-0" } else { "n-1" };
    let id: NodeId = rests.parse().unwrap();
    books.decide(|view| admission::rest_nodes(view, &tenant(), std::slice::from_ref(&id)).map(drop));

    let asked_at = books.now;
    let wide = books.submit("owner", "wide", 16);
    assert_eq!(wide.news.demands, Vec::new(), "nothing is called back for it");
    books.now = books.now.after(HOUR * 24);
    let missed = books.decide(|view| record_missed(view, &tenant()));
    assert_eq!(missed.iter().map(|one| one.workload.as_str()).collect::<Vec<_>>(), ["wide"]);

    let back = books.decide(|view| admission::serve_nodes(view, &tenant(), std::slice::from_ref(&id)));
    assert_eq!(back.demands.iter().map(|one| one.since).collect::<Vec<_>>(), [asked_at]);
}

/// A workload restarted on a GPU that is earmarked for a demand, and the node has no other free GPU.
#[test]
fn an_earmark_on_an_observed_gpu_is_served_again() {
    let mut books = Books::new(1, &[("owner", 4), ("other", 4)]);
    books.submit("other", "a", 1);
    books.submit("other", "rest", 3);
    books.submit("other", "lent", 4);
    books.submit("owner", "demand", 4);
    let from = books.booked("a", "n-0");
    let freed = books.booked("lent", "n-0");
    let (from, to): (Vec<u16>, Vec<u16>) = (from.into_iter().collect(), freed.into_iter().take(1).collect());
    books.observe(&[seen("a", "n-0", &from)]);
    fence(&mut books, "demand", "lent");
    books.decide(|view| {
        admission::release_victim(view, &tenant(), reclaim(), "lent", VictimExit::Evicted).map(drop)
    });

    let result = books.observe(&[seen("a", "n-0", &to)]);

    assert_eq!(result.moved, ["a".to_owned()].into());
    assert_eq!(books.booked("a", "n-0"), to.into_iter().collect());
    assert_eq!(books.workload("demand").state, WorkloadState::Waiting);
    assert_eq!(books.violations(), Vec::<String>::new());
}
