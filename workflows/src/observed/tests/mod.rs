//! Promises of the index: exact examples, and random streams against a model.

mod facts;
mod gpus;
mod leases;
mod streams;
mod watches;

use super::*;
use std::{collections::BTreeSet, time::Duration};
use store::Timestamp;

pub(super) const PROOF: Proof =
    Proof { looks: 2, apart: Duration::from_secs(5), fresh: Duration::from_secs(60) };

pub(super) fn at(second: u64) -> Timestamp {
    Timestamp(1_000_000_000).after(Duration::from_secs(second))
}

pub(super) fn mark(term: u64, round: u64, seq: u64) -> Mark {
    Mark { term: Term(term), round, seq }
}

pub(super) fn uid(name: &str) -> Uid {
    Uid::of(name)
}

pub(super) fn node(uid: &str, name: &str) -> NodeObject {
    NodeObject {
        uid: Uid::of(uid),
        version: 0,
        name: name.into(),
        system_uuid: format!("machine-of-{name}").into(),
        boot_id: "boot-1".into(),
        readiness: Readiness::Ready,
        cordoned: false,
        taints: Box::default(),
        driver: Box::default(),
        layout: Box::default(),
        allocatable: [("nvidia.com/gpu".into(), 8)].into(),
    }
}

pub(super) fn pod(uid: &str, on: &str, gpus: u32) -> PodObject {
    PodObject {
        uid: Uid::of(uid),
        version: 0,
        namespace: "t-acme".into(),
        name: "train-0".into(),
        owners: Box::default(),
        node: Some(on.into()),
        phase: PodPhase::Running,
        deletion: None,
        containers: Containers { waiting: 0, running: 1, terminated: 0 },
        rejected: false,
        gpus,
        profile: None,
        claims: Box::default(),
        workload: Some(uid.into()),
        decision: None,
        started: None,
    }
}

/// The pod after the kubelet has reported its end.
pub(super) fn ended(pod: &PodObject) -> PodObject {
    let containers = Containers { waiting: 0, running: 0, terminated: 1 };
    PodObject { phase: PodPhase::Failed, containers, ..pod.clone() }
}

/// A list of all objects, as the first batch of a round.
pub(super) fn list<T>(mark: Mark, at: Timestamp, objects: Vec<T>) -> Batch<T> {
    let objects = objects.into_iter().map(WatchEvent::InitApply);
    let events = [WatchEvent::Init].into_iter().chain(objects).chain([WatchEvent::InitDone]);
    Batch { mark, at, events: events.collect() }
}

pub(super) fn batch<T>(mark: Mark, at: Timestamp, events: Vec<WatchEvent<T>>) -> Batch<T> {
    Batch { mark, at, events }
}

/// A report of a node with whole GPUs `GPU-0` and so on, by the names of their pods.
pub(super) fn report(node: &str, seq: u64, second: u64, holders: &[&[&str]]) -> NodeReport {
    let devices = holders.iter().enumerate().map(|(index, pods)| DeviceReport {
        uuid: format!("GPU-{index}").into(),
        index: u16::try_from(index).ok(),
        profile: None,
        holders: Some(pods.iter().map(|pod| Uid::of(pod)).collect()),
        shared: false,
        open: Some(Box::default()),
        health: Health::Healthy,
    });
    NodeReport {
        node: Uid::of(node),
        boot: "boot-1".into(),
        instance: 1,
        seq,
        at: at(second),
        runtime: Some(holders.iter().flat_map(|pods| pods.iter()).map(|pod| Uid::of(pod)).collect()),
        devices: devices.collect(),
    }
}

/// The state of `GPU-0` of a node.
pub(super) fn gpu(index: &ClusterIndex, node: &str, second: u64) -> GpuState {
    index.gpus(Uid::of(node), at(second), PROOF)["GPU-0"]
}

/// An index with node `n-0` (UID `node-a`), and a pod `p` that has its only GPU, after second 0.
pub(super) fn with_a_pod() -> ClusterIndex {
    let mut index = ClusterIndex::default();
    index.apply_nodes(list(mark(1, 1, 0), at(0), vec![node("node-a", "n-0")])).unwrap();
    index.apply_pods(list(mark(1, 1, 0), at(0), vec![pod("p", "n-0", 1)])).unwrap();
    index.report(&report("node-a", 1, 0, &[&["p"]])).unwrap();
    assert_eq!(gpu(&index, "node-a", 0), GpuState::Held(uid("p")));
    index
}

/// Sends reports of an unused GPU at these seconds.
pub(super) fn looks(index: &mut ClusterIndex, seconds: &[u64]) {
    for second in seconds {
        index.report(&report("node-a", 10 + second, *second, &[&[]])).unwrap();
    }
}

pub(super) fn uids(table: &Table<PodObject>) -> BTreeSet<Uid> {
    table.iter().map(|pod| pod.uid).collect()
}
