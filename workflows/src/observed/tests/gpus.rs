//! The state of GPUs.

use super::*;

fn free_after(index: &mut ClusterIndex, second: u64) -> bool {
    looks(index, &[second, second + 5]);
    gpu(index, "node-a", second + 5) == GpuState::Free
}

fn pods(index: &mut ClusterIndex, seq: u64, events: Vec<WatchEvent<PodObject>>) {
    index.apply_pods(batch(mark(1, 1, seq), at(seq), events)).unwrap();
}

fn unconfirmed(doubt: Doubt) -> GpuState {
    GpuState::Unconfirmed(doubt)
}

/// C-8.
#[test]
fn a_gpu_is_free_only_after_its_node_has_confirmed_it_in_looks_apart() {
    let mut index = with_a_pod();
    let p = pod("p", "n-0", 1);
    pods(&mut index, 1, vec![WatchEvent::Apply(PodObject { deletion: Some(at(20)), ..p.clone() })]);
    assert_eq!(gpu(&index, "node-a", 1), GpuState::Held(uid("p")), "it may save for its whole grace");

    pods(&mut index, 2, vec![WatchEvent::Apply(ended(&p)), WatchEvent::Delete(uid("p"))]);
    assert_eq!(gpu(&index, "node-a", 2), unconfirmed(Doubt::Releasing));
    looks(&mut index, &[3, 4]);
    assert_eq!(gpu(&index, "node-a", 4), unconfirmed(Doubt::Releasing), "the looks are too close");
    looks(&mut index, &[8]);
    assert_eq!(gpu(&index, "node-a", 8), GpuState::Free);
}

/// C-28, C-31.
#[test]
fn a_pod_that_disappears_without_the_kubelets_word_frees_nothing_until_its_containers_are_gone() {
    for lost in [false, true] {
        let mut index = with_a_pod();
        if lost {
            index.apply_pods(list(mark(1, 2, 0), at(2), vec![])).unwrap();
        } else {
            pods(&mut index, 1, vec![WatchEvent::Delete(uid("p"))]);
        }
        assert_eq!(gpu(&index, "node-a", 2), unconfirmed(Doubt::EndUnseen));

        // The kubelet no longer lists a pod that was deleted by force, but its container runs.
        for (seq, runtime) in [(2, Some([uid("p")].into())), (3, None), (4, Some([uid("p")].into()))] {
            let second = seq * 3;
            index.report(&NodeReport { runtime, ..report("node-a", seq, second, &[&[]]) }).unwrap();
            assert_eq!(gpu(&index, "node-a", second), unconfirmed(Doubt::EndUnseen));
        }
        assert!(free_after(&mut index, 20));
    }
}

/// C-28.
#[test]
fn a_pod_that_disappears_before_a_report_names_its_gpu_may_have_any_gpu_of_its_node() {
    let mut index = with_a_pod();
    let seen = |seq, second, runtime: &[&str]| NodeReport {
        runtime: Some(runtime.iter().map(|pod| uid(pod)).collect()),
        ..report("node-a", seq, second, &[&["p"], &[], &[]])
    };
    index.report(&seen(2, 1, &["p"])).unwrap();
    index.report(&seen(3, 7, &["p"])).unwrap();
    let free = |index: &ClusterIndex, second| {
        let room = index.room(uid("node-a"), at(second), (PROOF, Evidence::Node));
        (room.free, room.taken, room.unconfirmed)
    };
    assert_eq!(free(&index, 7), (2, 0, 0));

    pods(&mut index, 1, vec![WatchEvent::Apply(pod("q", "n-0", 1))]);
    assert_eq!(free(&index, 7), (1, 1, 0));
    pods(&mut index, 2, vec![WatchEvent::Delete(uid("q"))]);
    assert_eq!(free(&index, 7), (1, 0, 1));
    index.report(&seen(4, 8, &["p", "q"])).unwrap();
    index.report(&seen(5, 9, &["p"])).unwrap();
    assert_eq!(free(&index, 9), (1, 0, 1), "one report may be older than the container");
    index.report(&seen(6, 10, &["p"])).unwrap();
    assert_eq!(free(&index, 10), (2, 0, 0));
}

#[test]
fn a_new_boot_or_a_confirmed_fence_ends_pods_that_disappeared_and_the_gpu_is_still_looked_at() {
    let boot = |seq, second| NodeReport {
        boot: "boot-2".into(),
        runtime: None,
        ..report("node-a", seq, second, &[&[]])
    };
    let mut index = with_a_pod();
    pods(&mut index, 1, vec![WatchEvent::Delete(uid("p"))]);
    let booted = NodeObject { boot_id: "boot-2".into(), ..node("node-a", "n-0") };
    index.apply_nodes(batch(mark(1, 1, 1), at(2), vec![WatchEvent::Apply(booted)])).unwrap();
    index.report(&boot(1, 3)).unwrap();
    assert_eq!(gpu(&index, "node-a", 3), unconfirmed(Doubt::Releasing));
    assert_eq!(index.report(&report("node-a", 99, 4, &[&[]])), Err(ReportRefusal::OtherBoot));
    index.report(&boot(2, 8)).unwrap();
    assert_eq!(gpu(&index, "node-a", 8), GpuState::Free);

    let mut index = with_a_pod();
    pods(&mut index, 1, vec![WatchEvent::Delete(uid("p"))]);
    index.confirm_fence(uid("node-a"));
    assert_eq!(gpu(&index, "node-a", 2), unconfirmed(Doubt::Releasing));
    assert!(free_after(&mut index, 3));
}

/// C-9, C-31.
#[test]
fn a_silent_or_lost_node_frees_nothing_and_ends_no_pod() {
    let mut index = with_a_pod();
    let silent = NodeObject { readiness: Readiness::Silent, ..node("node-a", "n-0") };
    index.apply_nodes(batch(mark(1, 1, 1), at(1), vec![WatchEvent::Apply(silent)])).unwrap();
    // A controller gives the pod up; no container has terminated.
    pods(&mut index, 1, vec![WatchEvent::Apply(PodObject { phase: PodPhase::Failed, ..pod("p", "n-0", 1) })]);
    assert_eq!(gpu(&index, "node-a", 2), GpuState::Held(uid("p")));
    pods(&mut index, 2, vec![WatchEvent::Delete(uid("p"))]);
    assert_eq!(gpu(&index, "node-a", 3), unconfirmed(Doubt::EndUnseen));
    looks(&mut index, &[10, 20]);
    assert_eq!(gpu(&index, "node-a", 20), unconfirmed(Doubt::NodeNotReady));

    let back = batch(mark(1, 1, 2), at(30), vec![WatchEvent::Apply(node("node-a", "n-0"))]);
    index.apply_nodes(back).unwrap();
    assert_eq!(gpu(&index, "node-a", 30), GpuState::Free);
    assert_eq!(gpu(&index, "node-a", 20 + 61), unconfirmed(Doubt::Silent));

    index.apply_nodes(batch(mark(1, 1, 3), at(31), vec![WatchEvent::Delete(uid("node-a"))])).unwrap();
    assert!(index.gpus(uid("node-a"), at(31), PROOF).values().all(|state| !state.is_free()));
}

/// C-23.
#[test]
fn a_kubelet_that_still_lists_an_ended_pod_does_not_hold_its_gpu() {
    let mut index = with_a_pod();
    pods(&mut index, 1, vec![WatchEvent::Apply(ended(&pod("p", "n-0", 1)))]);
    for (seq, second) in [(2, 2), (3, 8)] {
        index.report(&report("node-a", seq, second, &[&["p"]])).unwrap();
    }
    assert_eq!(gpu(&index, "node-a", 8), GpuState::Free);
    pods(&mut index, 2, vec![WatchEvent::Delete(uid("p"))]);
    index.report(&report("node-a", 4, 9, &[&["p"]])).unwrap();
    assert_eq!(gpu(&index, "node-a", 9), GpuState::Free);
}

/// C-24.
#[test]
fn a_gpu_with_two_holders_is_unconfirmed_until_one_has_ended() {
    let mut index = with_a_pod();
    pods(&mut index, 1, vec![WatchEvent::Apply(pod("q", "n-0", 1))]);
    index.report(&report("node-a", 2, 2, &[&["q"]])).unwrap();
    assert_eq!(gpu(&index, "node-a", 2), unconfirmed(Doubt::SeveralHolders));
    pods(&mut index, 2, vec![WatchEvent::Apply(ended(&pod("p", "n-0", 1)))]);
    assert_eq!(gpu(&index, "node-a", 3), GpuState::Held(uid("q")));
}

#[test]
fn only_a_complete_look_at_a_healthy_unused_gpu_counts() {
    type Change = fn(&mut DeviceReport);
    let wrong: [(Change, GpuState); 5] = [
        (|gpu| gpu.open = Some([4711].into()), unconfirmed(Doubt::Open)),
        (|gpu| gpu.open = None, unconfirmed(Doubt::NotLooked)),
        (|gpu| gpu.holders = None, unconfirmed(Doubt::HolderUnknown)),
        (|gpu| gpu.health = Health::Unknown, unconfirmed(Doubt::NotLooked)),
        (|gpu| gpu.health = Health::Unfit, GpuState::Unfit),
    ];
    for (change, state) in wrong {
        let mut index = with_a_pod();
        pods(&mut index, 1, vec![WatchEvent::Apply(ended(&pod("p", "n-0", 1)))]);
        assert!(free_after(&mut index, 2));
        let mut report = report("node-a", 100, 8, &[&[]]);
        change(&mut report.devices[0]);
        index.report(&report).unwrap();
        assert_eq!(gpu(&index, "node-a", 8), state);
        looks(&mut index, &[200]);
        assert_eq!(gpu(&index, "node-a", 200), unconfirmed(Doubt::Releasing), "earlier looks do not count");
    }
}

/// C-44.
#[test]
fn a_gpu_that_its_node_no_longer_lists_is_lost_and_an_older_report_changes_nothing() {
    let mut index = with_a_pod();
    pods(&mut index, 1, vec![WatchEvent::Apply(ended(&pod("p", "n-0", 1)))]);
    assert!(free_after(&mut index, 2));
    assert_eq!(index.report(&report("node-a", 3, 8, &[&["p"]])), Err(ReportRefusal::Older));
    assert_eq!(gpu(&index, "node-a", 8), GpuState::Free);
    index.report(&report("node-a", 90, 9, &[])).unwrap();
    assert_eq!(gpu(&index, "node-a", 9), GpuState::Unfit);
}

/// C-33, C-39.
#[test]
fn a_new_node_object_has_none_of_the_old_ones_pods_and_another_machine_offers_nothing() {
    let mut index = with_a_pod();
    let events = vec![WatchEvent::Apply(node("node-b", "n-0")), WatchEvent::Delete(uid("node-a"))];
    index.apply_nodes(batch(mark(1, 1, 1), at(1), events)).unwrap();
    assert_eq!(gpu(&index, "node-a", 1), GpuState::Held(uid("p")), "the old node's pod has not ended");
    assert_eq!(index.bound(uid("node-b")), []);
    for (seq, second) in [(1, 2), (2, 8)] {
        index.report(&report("node-b", seq, second, &[&[]])).unwrap();
    }
    assert_eq!(gpu(&index, "node-b", 8), GpuState::Free);

    let other = NodeObject { system_uuid: "another".into(), ..node("node-c", "n-0") };
    index.apply_nodes(batch(mark(1, 1, 2), at(9), vec![WatchEvent::Apply(other)])).unwrap();
    for (seq, second) in [(1, 10), (2, 16)] {
        index.report(&report("node-c", seq, second, &[&[]])).unwrap();
    }
    assert_eq!(gpu(&index, "node-b", 16), unconfirmed(Doubt::NodeGone));
    assert_eq!(gpu(&index, "node-c", 16), unconfirmed(Doubt::OtherMachine));
    index.map_machine("n-0", "another");
    assert_eq!(gpu(&index, "node-c", 16), GpuState::Free);
}

/// C-33.
#[test]
fn two_node_objects_of_one_machine_are_counted_once() {
    let mut index = with_a_pod();
    pods(&mut index, 1, vec![WatchEvent::Apply(ended(&pod("p", "n-0", 1)))]);
    assert!(free_after(&mut index, 2));
    let renamed = NodeObject { name: "n-1".into(), ..node("node-b", "n-0") };
    index.apply_nodes(batch(mark(1, 1, 1), at(8), vec![WatchEvent::Apply(renamed)])).unwrap();
    for (seq, second) in [(1, 9), (2, 15)] {
        index.report(&report("node-b", seq, second, &[&[]])).unwrap();
    }
    looks(&mut index, &[15]);
    let free = |index: &ClusterIndex| {
        ["node-a", "node-b"].into_iter().filter(|node| gpu(index, node, 15).is_free()).count()
    };
    assert_eq!(free(&index), 0, "both are ready");

    let silent = NodeObject { readiness: Readiness::Silent, ..node("node-a", "n-0") };
    index.apply_nodes(batch(mark(1, 1, 2), at(15), vec![WatchEvent::Apply(silent)])).unwrap();
    assert_eq!((free(&index), gpu(&index, "node-b", 15)), (1, GpuState::Free));
}

/// C-15.
#[test]
fn a_pod_whose_containers_have_terminated_holds_nothing_even_if_its_object_stays() {
    let stuck = PodObject {
        containers: Containers { waiting: 0, running: 0, terminated: 2 },
        deletion: Some(at(1)),
        ..pod("p", "n-0", 1)
    };
    assert_eq!(stuck.end(), PodEnd::Proven);
    assert_eq!(PodObject { deletion: None, ..stuck }.end(), PodEnd::Lives, "its containers restart");
}

#[test]
fn without_reports_a_node_has_free_gpus_only_by_the_api_servers_evidence() {
    let mut index = ClusterIndex::default();
    index.apply_nodes(list(mark(1, 1, 0), at(0), vec![node("node-a", "n-0")])).unwrap();
    index.apply_pods(list(mark(1, 1, 0), at(0), vec![pod("p", "n-0", 3), pod("q", "n-0", 2)])).unwrap();
    let room = |index: &ClusterIndex, evidence| index.room(uid("node-a"), at(1), (PROOF, evidence));
    assert_eq!(room(&index, Evidence::Node).free, 0);
    assert_eq!(room(&index, Evidence::ApiServer).free, 3);
    pods(&mut index, 1, vec![WatchEvent::Delete(uid("p")), WatchEvent::Apply(ended(&pod("q", "n-0", 2)))]);
    let room = room(&index, Evidence::ApiServer);
    assert_eq!(
        (room.free, room.unconfirmed, room.held),
        (5, 3, 0),
        "the end of q is proven, that of p is not"
    );
}

#[test]
fn a_free_gpu_is_taken_by_a_pod_that_is_bound_and_has_no_device_yet() {
    let mut index = with_a_pod();
    pods(&mut index, 1, vec![WatchEvent::Apply(ended(&pod("p", "n-0", 1)))]);
    assert!(free_after(&mut index, 2));
    pods(&mut index, 2, vec![WatchEvent::Apply(pod("q", "n-0", 1))]);
    let room = index.room(uid("node-a"), at(8), (PROOF, Evidence::Node));
    assert_eq!((room.free, room.taken), (0, 1));
}
