//! Which younger workloads wait behind an overdue one. None waits if its waiting helps no other workload (S-33).

use std::time::Duration;
use tests::books::account::{World, gpus, h100, job, tenant};
use workflows::{
    policy::{PlatformPolicy, publish},
    scheduling::admission::{self, WorkloadRequest},
    tenancy::*,
};

/// Advances the clock until every waiting workload is overdue.
fn wait_long(world: &mut World) {
    for _ in 0..9 {
        world.pass(Duration::from_secs(3_600));
        let mut news = world.see().news;
        while news.more {
            news = world.decide(|view| admission::admit_queued(view, &tenant())).unwrap();
        }
    }
}

fn state(world: &World, workload: &str) -> WorkloadState {
    world.workload(workload).state
}

fn asks(world: &mut World, request: &WorkloadRequest) -> AdmissionVerdict {
    world.submit(request).unwrap().admission.answer
}

/// The elder workload is admitted in the commit that wakes both: nothing precedes it any more.
#[test]
fn a_workload_that_is_tried_before_an_older_one_is_admitted_with_it() {
    let mut world = World::new(2).with(&[("lender", gpus(8, None, None)), ("a", gpus(4, None, None))]);
    world.submit(&job("a", "runs", 2)).unwrap();
    world.submit(&job("lender", "lends-later", 8)).unwrap();
    assert_eq!(asks(&mut world, &job("a", "elder", 8)), AdmissionVerdict::Queue);
    wait_long(&mut world);
    assert_eq!(
        asks(&mut world, &job("a", "own", 2)),
        AdmissionVerdict::Queue,
        "although it is within its own quota"
    );

    world.finish("lends-later").unwrap();

    assert_eq!(state(&world, "elder"), WorkloadState::Admitted);
    assert_eq!(state(&world, "own"), WorkloadState::Admitted);
}

/// A service may be evicted and never borrows: while its own workspace uses the quota, no other workspace can help it.
#[test]
fn a_service_that_waits_for_its_own_quota_blocks_no_borrower_of_another_workspace() {
    let mut world = World::new(1).with(&[
        ("lender", gpus(4, None, None)),
        ("a", gpus(4, None, None)),
        ("b", gpus(0, None, None)),
    ]);
    world.submit(&job("a", "runs", 4)).unwrap();
    let service = WorkloadRequest { class: WorkloadClass::Service, ..job("a", "service", 1) };
    assert_eq!(asks(&mut world, &service), AdmissionVerdict::Queue);
    wait_long(&mut world);

    assert_eq!(asks(&mut world, &job("b", "borrows", 1)), AdmissionVerdict::Admit);
}

/// A workload that can never be admitted, because its workspace's quota was lowered, does not block its queue.
#[test]
fn a_service_above_the_quota_of_its_workspace_does_not_block_its_queue() {
    let mut world = World::new(1).with(&[("lender", gpus(4, None, None)), ("a", gpus(4, None, None))]);
    world.submit(&job("a", "runs", 4)).unwrap();
    let service = WorkloadRequest { class: WorkloadClass::Service, ..job("a", "service", 2) };
    assert_eq!(asks(&mut world, &service), AdmissionVerdict::Queue);
    wait_long(&mut world);
    world.finish("runs").unwrap();
    assert_eq!(state(&world, "service"), WorkloadState::Admitted, "its own quota is sufficient");
    world.submit(&job("a", "again", 4)).unwrap();
    let second = WorkloadRequest { name: "second".to_owned(), ..service };
    assert_eq!(asks(&mut world, &second), AdmissionVerdict::Queue);
    wait_long(&mut world);

    world.allow("a", WorkspaceClass::Batch, gpus(1, None, None));

    assert_eq!(state(&world, "second"), WorkloadState::Waiting);
    assert_eq!(asks(&mut world, &job("a", "younger", 1)), AdmissionVerdict::Queue, "lent GPUs are in use");
    world.finish("again").unwrap();
    assert_eq!(state(&world, "second"), WorkloadState::Waiting);
    assert_eq!(state(&world, "younger"), WorkloadState::Admitted);
}

/// Production lends nothing to research, and batch lends too little for the oldest workload.
#[test]
fn a_workload_that_lenders_cannot_serve_blocks_no_other() {
    let mut world = World::new(2).with(&[("batch", gpus(2, None, None))]);
    world.allow("prod", WorkspaceClass::Production, gpus(6, None, None));
    world.allow("lab", WorkspaceClass::Research, gpus(0, None, None));
    world.submit(&job("prod", "lends-later", 6)).unwrap();
    assert_eq!(asks(&mut world, &job("lab", "large", 4)), AdmissionVerdict::Queue);
    let rule = "anti_colocate: [{region: eu-west, class_a: production, class_b: research}]";
    let text = PlatformPolicy::amended(&[("anti_colocate: []", rule)]).unwrap();
    world.decide(|view| publish(view, &text, "test")).unwrap();
    wait_long(&mut world);

    assert_eq!(asks(&mut world, &job("lab", "small", 2)), AdmissionVerdict::Admit);

    let never = world.submit(&job("lab", "as-large", 4)).unwrap().admission;
    assert_eq!(never.answer, AdmissionVerdict::Reject, "a new request is rejected at once");
    assert!(never.weighed.iter().any(|finding| finding.code == "borrow.never"), "{:#?}", never.weighed);
}

/// Two workloads of a queue wait for whole GPUs, the younger one for slices as well. Slices held for the younger one would
/// idle until the elder is served.
#[test]
fn a_workload_behind_an_older_one_of_its_queue_blocks_no_other_gpu_model() {
    let mut world = World::new(2);
    let node: NodeId = "n-0001".parse().unwrap();
    let profile = "1g.10gb".parse().unwrap();
    world
        .decide(|view| admission::cut_gpus(view, &tenant(), &node, &(0..8).collect(), Some((&profile, 7))))
        .unwrap();
    world.see();
    let slice: Resource = "gpu/H100/1g.10gb".parse().unwrap();
    let both = |whole, slices| {
        let limit = |nominal| Allowance { nominal, borrowing_limit: None, lending_limit: None };
        [(h100(), limit(whole)), (slice.clone(), limit(slices))].into()
    };
    for (name, whole, slices) in [("lender", 8, 56), ("a", 0, 0), ("b", 0, 0)] {
        world.allow(name, WorkspaceClass::Batch, both(whole, slices));
    }
    world.submit(&job("lender", "lends-later", 6)).unwrap();
    assert_eq!(asks(&mut world, &job("a", "elder", 8)), AdmissionVerdict::Queue);
    let younger =
        WorkloadRequest { requests: [(h100(), 4), (slice.clone(), 1)].into(), ..job("a", "younger", 4) };
    assert_eq!(asks(&mut world, &younger), AdmissionVerdict::Queue);
    wait_long(&mut world);

    let slices = WorkloadRequest { requests: [(slice, 1)].into(), ..job("b", "slices", 1) };

    assert_eq!(asks(&mut world, &slices), AdmissionVerdict::Admit);
    assert_eq!(
        asks(&mut world, &job("b", "whole", 1)),
        AdmissionVerdict::Queue,
        "a place is kept for the elder"
    );
}
