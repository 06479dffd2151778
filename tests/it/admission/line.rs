//! The queue of workloads: its order, and the limits on passing.

use std::time::Duration;
use store::{ExecutionId, Timestamp};
use tests::books::account::{World, fencing, gpus, h100, job, tenant};
use workflows::{
    scheduling::admission::{self, Fence, MAX_ADMITTED_PER_COMMIT, VictimExit, WorkloadRequest},
    tenancy::*,
};

const HOUR: Duration = Duration::from_secs(3_600);

fn pass(world: &mut World, span: Duration) {
    world.pass(span);
    let mut news = world.see().news;
    while news.more {
        news = world.decide(|view| admission::admit_queued(view, &tenant())).unwrap();
    }
}

/// S-34: two borrowers with equal weights get equal shares.
#[test]
fn equal_borrowers_get_shares_that_differ_by_at_most_one_job() {
    let mut world = World::new(2).with(&[
        ("lender", gpus(16, None, None)),
        ("a", gpus(0, None, None)),
        ("b", gpus(0, None, None)),
    ]);
    // One workspace submits much before the other submits anything.
    for name in ["a", "b"] {
        for n in 0..45 {
            world.submit(&job(name, &format!("{name}-{n:02}"), 2)).unwrap();
        }
    }

    for _ in 0..24 {
        pass(&mut world, HOUR / 12);
        let mut running: Vec<(String, RunningEntry)> =
            ["a", "b"].iter().flat_map(|name| world.running(name)).collect();
        running.sort_by_key(|(name, running)| (running.admitted_at, name.clone()));
        for (name, _) in running.iter().take(2) {
            world.finish(name).unwrap();
        }
    }

    assert!(
        !world.waiting("a").is_empty() && !world.waiting("b").is_empty(),
        "both submit more all the time: {} and {}, {:?} and {:?}",
        world.waiting("a").len(),
        world.waiting("b").len(),
        world.balance("a"),
        world.balance("b")
    );
    let used = |name: &str| world.balance(name).spent.borrowed / 300_000;
    let (a, b) = (used("a"), used("b"));
    assert_eq!(a + b, 16 * 24, "{a} and {b} times 5 GPU-minutes: no GPU is idle");
    // A job is 2 GPUs for 4 times 5 minutes; the first 8 belonged to one workspace.
    assert!(a.abs_diff(b) <= 2 * 4 * 8, "{a} and {b} times 5 GPU-minutes");
}

/// S-38: a workload within its own quota never queues behind borrowers.
#[test]
fn own_demand_comes_before_borrowers_however_long_they_wait() {
    let mut world = World::new(1).with(&[("a", gpus(4, None, None)), ("b", gpus(4, None, None))]);
    world.submit(&job("a", "a-own", 4)).unwrap();
    world.submit(&job("b", "b-own", 4)).unwrap();
    world.submit(&job("b", "b-more", 4)).unwrap();
    pass(&mut world, HOUR);
    world.submit(&job("a", "a-later", 4)).unwrap();

    world.finish("a-own").unwrap();

    assert_eq!(world.workload("a-later").state, WorkloadState::Admitted);
    assert_eq!(world.workload("b-more").state, WorkloadState::Waiting);
}

/// S-33: smaller workloads pass a workload that does not fit, until it has waited for as long as policy allows.
#[test]
fn no_workload_overtakes_an_overdue_one() {
    let mut world = World::new(1).with(&[("lender", gpus(8, None, None)), ("a", gpus(0, None, None))]);
    world.submit(&job("a", "first", 4)).unwrap();
    world.submit(&job("a", "large", 8)).unwrap();
    let small = world.submit(&job("a", "small", 4)).unwrap().admission;
    assert_eq!(small.answer, AdmissionVerdict::Admit, "no GPU idles for a workload that does not fit");

    for _ in 0..9 {
        pass(&mut world, HOUR);
    }
    world.finish("first").unwrap();
    let late = world.submit(&job("a", "late", 4)).unwrap().admission;
    assert_eq!(late.answer, AdmissionVerdict::Queue);
    assert!(late.weighed.iter().any(|finding| finding.code == "line.ahead"), "{:#?}", late.weighed);

    world.finish("small").unwrap();
    assert_eq!(world.workload("large").state, WorkloadState::Admitted);
}

/// S-33: a queue blocked by its own workspace's use does not block the queues of other workspaces.
#[test]
fn a_workload_that_waits_for_its_own_quota_blocks_only_its_own_queue() {
    let mut world = World::new(2).with(&[
        ("lender", gpus(12, None, None)),
        ("a", gpus(4, None, None)),
        ("b", gpus(0, None, None)),
    ]);
    world.submit(&job("lender", "lends-later", 12)).unwrap();
    world.submit(&job("a", "runs", 4)).unwrap();
    let firm = WorkloadRequest { preemptible: false, ..job("a", "firm", 1) };
    assert_eq!(
        world.submit(&firm).unwrap().admission.answer,
        AdmissionVerdict::Queue,
        "its quota is in use, and it may not borrow"
    );
    world.pass(HOUR / 60);
    world.submit(&job("a", "behind-firm", 1)).unwrap();
    for _ in 0..9 {
        pass(&mut world, HOUR);
    }
    world.submit(&job("b", "woken", 1)).unwrap();

    world.finish("lends-later").unwrap();

    assert_eq!(world.workload("firm").state, WorkloadState::Waiting);
    assert_eq!(world.workload("behind-firm").state, WorkloadState::Waiting, "its own queue keeps its order");
    assert_eq!(
        world.workload("woken").state,
        WorkloadState::Admitted,
        "otherwise eleven of its GPUs would idle"
    );
    assert_eq!(world.submit(&job("b", "asks", 1)).unwrap().admission.answer, AdmissionVerdict::Admit);
    world.finish("runs").unwrap();
    assert_eq!(world.workload("firm").state, WorkloadState::Admitted);
    assert_eq!(world.workload("behind-firm").state, WorkloadState::Admitted);
}

#[test]
fn a_full_queue_refuses_further_workloads_with_a_clear_error() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    world.submit(&job("a", "runs", 8)).unwrap();
    let waits = |n: usize| QueuedWorkload {
        workload: format!("{n:0>64}"),
        priority: i32::MIN,
        since: Timestamp(u64::MAX),
        entered_at: Timestamp(u64::MAX),
        requests: ["gpu/NVIDIA-H100-80GB/1g.10gb", "cpu_milli", "memory_mib", "storage_gib", "pods"]
            .map(|resource| (resource.parse().unwrap(), 1 << 40))
            .into(),
        together: 1 << 40,
        preemptible: false,
        class: Some(WorkloadClass::Interactive),
        demanded_at: Some(Timestamp(u64::MAX)),
        cooling_until: Some(Timestamp(u64::MAX)),
    };
    let (tenant, workspace) = (tenant(), tests::books::account::workspace("a"));
    let line = WorkspaceQueue { tenant, workspace, waiting: (0..520).map(waits).collect() };
    world.decide(|view| view.put(&line)).unwrap();

    let refused = world.submit(&job("a", "one-too-many", 1)).unwrap_err();

    assert_eq!(refused.code, "line.full");
    assert!(world.books.longest() < 256 << 10, "{}", world.books.longest());
}

/// S-33, in bounded commits.
#[test]
fn a_large_release_admits_all_queued_workloads_over_several_commits() {
    let mut world = World::new(10).with(&[("a", gpus(80, None, None))]);
    world.submit(&job("a", "large", 80)).unwrap();
    for n in 0..80 {
        world.submit(&job("a", &format!("small-{n}"), 1)).unwrap();
    }

    let first = world.finish("large").unwrap().news;
    let second = world.decide(|view| admission::admit_queued(view, &tenant())).unwrap();
    let third = world.decide(|view| admission::admit_queued(view, &tenant())).unwrap();

    assert_eq!((first.admitted.len(), first.more), (MAX_ADMITTED_PER_COMMIT, true));
    assert_eq!((second.admitted.len(), second.more), (MAX_ADMITTED_PER_COMMIT, true));
    assert_eq!((third.admitted.len(), third.more), (80 - 2 * MAX_ADMITTED_PER_COMMIT, false));
    assert_eq!(world.balance("a").used, 80);
}

/// S-35: a loan ends when an owner needs it, whatever its term.
#[test]
fn an_overdue_loan_is_recalled_only_while_a_workload_waits() {
    let mut world = World::new(1).with(&[
        ("lender", gpus(8, None, None)),
        ("a", gpus(0, None, None)),
        ("b", gpus(0, None, None)),
    ]);
    world.submit(&job("a", "long", 8)).unwrap();
    pass(&mut world, 25 * HOUR);
    let expire = |world: &mut World| world.decide(|view| admission::expire_loans(view, &tenant())).unwrap();
    assert_eq!(expire(&mut world), vec![]);

    world.submit(&job("b", "waits", 4)).unwrap();
    let overdue = expire(&mut world);

    assert_eq!(overdue.len(), 1);
    assert_eq!(world.books.all::<Loan>()[0].state, LoanState::Overdue);
    let by = ExecutionId::from_bytes([9; 16]);
    let loan = &overdue[0].loan;
    let victims = [loan.workload.clone()].into();
    let fence = Fence { workload: None, ..fencing(by, loan.lender.as_str(), "", victims) };
    world.decide(|view| admission::fence(view, &fence)).unwrap();
    world.decide(|view| admission::release_victim(view, &tenant(), by, "long", VictimExit::Evicted)).unwrap();
    assert_eq!(world.workload("waits").state, WorkloadState::Admitted);
    world.decide(|view| admission::grant(view, &tenant(), &h100(), by)).unwrap();
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// P-9: a workspace with repeated reclaims borrows half as much for an hour.
#[test]
fn a_borrower_that_is_reclaimed_repeatedly_is_slowed_down() {
    let mut world = World::new(2).with(&[("lender", gpus(8, None, None)), ("b", gpus(8, Some(8), None))]);
    world.submit(&job("b", "own", 8)).unwrap();
    for round in 0..3_u8 {
        let (mine, theirs) = (format!("mine-{round}"), format!("theirs-{round}"));
        world.submit(&job("b", &theirs, 8)).unwrap();
        let demand = world.submit(&job("lender", &mine, 8)).unwrap().news.demands.remove(0);
        let by = ExecutionId::from_bytes([round + 1; 16]);
        let victims = [theirs.clone()].into();
        let fence = fencing(by, demand.workspace.as_str(), &demand.workload, victims);
        world.decide(|view| admission::fence(view, &fence)).unwrap();
        world.finish(&theirs).unwrap();
        world.decide(|view| admission::grant(view, &tenant(), &h100(), by)).unwrap();
        world.finish(&mine).unwrap();
        pass(&mut world, Duration::from_secs(60));
    }

    let half = world.submit(&job("b", "half", 4)).unwrap().admission;
    let more = world.submit(&job("b", "more", 1)).unwrap().admission;
    let later = world.submit(&job("b", "later", 14)).unwrap().admission;

    assert_eq!(half.answer, AdmissionVerdict::Admit);
    assert_eq!(more.answer, AdmissionVerdict::Queue);
    // More than the reduced limit of that hour, and less than the normal limit.
    assert_eq!(later.answer, AdmissionVerdict::Queue, "{:?}", later.weighed);
    assert!(later.weighed.iter().any(|finding| finding.code == "quota.slowed"), "{:?}", later.weighed);
    pass(&mut world, HOUR);
    assert_eq!(world.workload("more").state, WorkloadState::Admitted);
}

/// S-124: one notice for each crossing, however often usage changes within the band.
#[test]
fn a_soft_threshold_is_reported_once_until_usage_falls_below_its_band() {
    let mut world = World::new(2).with(&[("a", gpus(10, Some(0), None))]);
    let mut told = Vec::new();
    told.extend(world.submit(&job("a", "most", 7)).unwrap().news.crossings);
    for n in 0..45 {
        // The notice is sent at 8 of 10 and armed again at 7 of 10. Nothing happens between them.
        let name = format!("x-{n}");
        told.extend(world.submit(&job("a", &name, 1)).unwrap().news.crossings);
        told.extend(world.finish(&name).unwrap().news.crossings);
    }
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].at, told[0].used, told[0].nominal), (800, 8, 10));

    world.finish("most").unwrap();
    let again = world.submit(&job("a", "again", 9)).unwrap().news.crossings;

    assert_eq!(again.len(), 1, "below the band it is armed again");
}

/// GPUs that a lender needs itself are moved to another lender in the same commit.
#[test]
fn a_loan_moves_to_another_lender_when_the_lender_needs_its_quota() {
    let mut world = World::new(3).with(&[
        ("big", gpus(10, None, None)),
        ("small", gpus(8, None, None)),
        ("b", gpus(0, None, None)),
    ]);
    world.submit(&job("b", "x", 6)).unwrap();
    assert_eq!(world.balance("big").lent, 6, "the lender with more idle GPUs lends");

    let own = world.submit(&job("big", "own", 10)).unwrap().admission;

    assert_eq!(own.answer, AdmissionVerdict::Admit);
    assert_eq!((world.balance("big").lent, world.balance("small").lent), (0, 6));
    let loans = world.books.all::<Loan>();
    assert_eq!(loans.iter().filter(|loan| loan.state == LoanState::Returned).count(), 1);
    let open: Vec<_> = loans.iter().filter(|loan| loan.state == LoanState::Active).collect();
    assert_eq!(
        (open.len(), open[0].workload.as_str(), open[0].due),
        (1, "x", loans[0].due),
        "with the old term"
    );
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// After the loss of a node its workloads are queued again at their old places, and their loans are written off.
#[test]
fn the_workloads_of_a_lost_node_free_their_quota_and_their_loans_end() {
    let mut world = World::new(2).with(&[("lender", gpus(8, None, None)), ("b", gpus(8, None, None))]);
    world.submit(&job("b", "own", 8)).unwrap();
    world.submit(&job("b", "lent", 8)).unwrap();
    let node = world.workload("lent").placed[0].node.clone();

    let (gone, _) =
        world.decide(|view| admission::lose_nodes(view, &tenant(), std::slice::from_ref(&node))).unwrap();

    assert_eq!(gone, ["lent".to_owned()].into());
    assert_eq!(world.workload("lent").state, WorkloadState::Waiting);
    assert_eq!(world.books.all::<Loan>()[0].state, LoanState::WrittenOff);
    assert_eq!(world.violations(), Vec::<String>::new());
    world.decide(|view| admission::forget_nodes(view, &tenant(), std::slice::from_ref(&node))).unwrap();
    assert_eq!(world.cohort().stock[&h100()].pieces, 8);
}

/// A GPU that the platform sees in use without an allocation is not allocated.
#[test]
fn a_gpu_in_use_without_a_booking_is_not_given_to_a_workload() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    world.pass(Duration::from_secs(1));
    let kind = h100().gpu().unwrap().clone();
    let seen = admission::ObservedKind { usable: 8, busy: 3 };
    let nodes = [("n-0000".parse().unwrap(), [(kind, seen)].into())].into();
    let observation = admission::Observation { at: world.books.now, nodes };

    let observed = world.decide(|view| admission::observe(view, &tenant(), &observation)).unwrap();
    let wide = world.submit(&job("a", "wide", 6)).unwrap().admission;

    assert_eq!(observed.drift.len(), 1);
    assert_eq!(world.occupancy().drifts, 1);
    assert_eq!(wide.answer, AdmissionVerdict::Queue);
    world.pass(Duration::from_secs(1));
    world.see();
    assert_eq!(world.workload("wide").state, WorkloadState::Admitted);
}

#[test]
fn a_frozen_workspace_admits_nothing_until_it_is_unfrozen() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    let (by, other) = (ExecutionId::from_bytes([1; 16]), ExecutionId::from_bytes([2; 16]));
    let names = [tests::books::account::workspace("a")];
    world.decide(|view| admission::freeze(view, &tenant(), &names, by)).unwrap();

    let waits = world.submit(&WorkloadRequest { preemptible: false, ..job("a", "x", 1) }).unwrap().admission;
    world.decide(|view| admission::thaw(view, &tenant(), &names, other)).unwrap();
    assert_eq!((waits.answer, world.workload("x").state), (AdmissionVerdict::Queue, WorkloadState::Waiting));
    world.decide(|view| admission::thaw(view, &tenant(), &names, by)).unwrap();

    assert_eq!(world.workload("x").state, WorkloadState::Admitted);
}

/// S-19: months are closed, and their usage stays.
#[test]
fn monthly_usage_is_exact_to_the_millisecond() {
    let mut world = World::new(2).with(&[("lender", gpus(8, None, None)), ("b", gpus(4, None, None))]);
    world.submit(&job("b", "x", 6)).unwrap();
    let started = world.books.now;
    // From the middle of January into February.
    pass(&mut world, 30 * 24 * HOUR);
    world.finish("x").unwrap();

    let january = world.books.find::<MonthlyUsage>("acme/b/2026-01").unwrap();
    let february = admission::usage_so_far(&world.cohort(), world.books.now);
    let february = february.iter().find(|usage| usage.workspace.as_str() == "b").unwrap();
    let end = world.books.now;

    assert_eq!(january.to, february.from);
    assert_eq!(january.to.0, 1_769_904_000_000, "2026-02-01T00:00:00Z");
    let of = |usage: &MonthlyUsage| usage.spent[&h100()];
    assert_eq!(of(&january).own, 4 * (january.to.0 - started.0));
    assert_eq!(of(&january).borrowed, 2 * (january.to.0 - started.0));
    assert_eq!(of(february).borrowed, 2 * (end.0 - january.to.0));
    let credited = world.books.find::<MonthlyUsage>("acme/lender/2026-01").unwrap();
    assert_eq!(of(&credited).lent, of(&january).borrowed);
}
