//! `cargo bench -p tests --bench observed`: memory and time of the index of a large cluster, from a synthetic stream of objects as the observers decode them:
//! 100,000 pods, 10,000 nodes with reports of 8 GPUs each, and 100,000 Kueue workloads. Prints the resident memory of each, and the time of a first list and
//! of a relist of the pods. Exits non-zero if pods take 200 MB or more, if a relist takes 30 s or longer, or if it does not find the changes.

use std::{
    fs,
    process::ExitCode,
    time::{Duration, Instant},
};
use store::Timestamp;
use workflows::observed::{
    Batch, ClusterIndex, Containers, DeviceReport, Health, Mark, NodeObject, NodeReport, PodObject, PodPhase,
    Readiness, ReservedAmount, Term, Uid, WatchEvent, WorkloadObject,
};

const PODS: usize = 100_000;
const NODES: usize = 10_000;
const WORKLOADS: usize = 100_000;
const GPUS: usize = 8;
/// The page size of a list.
const PAGE: usize = 500;
/// The limits.
const MEMORY: u64 = 200_000_000;
const RELIST: Duration = Duration::from_secs(30);

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line VmRSS");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// A UID in the form of an API server.
fn uid(kind: u32, number: usize) -> Uid {
    Uid::of(&format!("{kind:08x}-{:04x}-4000-8000-{number:012x}", number & 0xffff))
}

fn pod(number: usize) -> PodObject {
    let on_gpu = number < NODES * GPUS;
    PodObject {
        uid: uid(1, number),
        version: 1_000_000 + u64::try_from(number).expect("small"),
        namespace: format!("t-tenant-{:03}--workspace-{}", number % 400, number % 7).into(),
        name: format!("train-llama-{}-worker-{}-x7k2p", number / 8, number % 8).into(),
        owners: [uid(3, number / 8), uid(4, number / 8)].into(),
        node: Some(format!("gpu-node-{:05}", number % NODES).into()),
        phase: PodPhase::Running,
        deletion: None,
        containers: Containers { waiting: 0, running: 2, terminated: 0 },
        rejected: false,
        gpus: u32::from(on_gpu),
        profile: None,
        claims: Box::default(),
        workload: Some(format!("job-train-llama-{}-5f2c1", number / 8).into()),
        decision: Some(format!("adm-{number:08}").into()),
        started: Some(Timestamp(1_700_000_000_000)),
    }
}

fn node(number: usize) -> NodeObject {
    NodeObject {
        uid: uid(2, number),
        version: 1,
        name: format!("gpu-node-{number:05}").into(),
        system_uuid: format!("4c4c4544-0042-3510-8051-{number:012x}").into(),
        boot_id: format!("b07c8d4e-9d2f-4b6e-a5c1-{number:012x}").into(),
        readiness: Readiness::Ready,
        cordoned: false,
        taints: ["tenure.dev/tenant=tenant-001:NoSchedule".into()].into(),
        driver: "570.86.15".into(),
        layout: Box::default(),
        allocatable: [("nvidia.com/gpu".into(), 8)].into(),
    }
}

fn workload(number: usize) -> WorkloadObject {
    WorkloadObject {
        uid: uid(3, number),
        version: 1,
        namespace: format!("t-tenant-{:03}--workspace-{}", number % 400, number % 7).into(),
        name: format!("job-train-llama-{number}-5f2c1").into(),
        owners: [uid(4, number)].into(),
        queue: "default".into(),
        active: true,
        quota_reserved: true,
        admitted: true,
        evicted: false,
        finished: false,
        amounts: [ReservedAmount { flavor: "h100".into(), resource: "nvidia.com/gpu".into(), count: 8 }]
            .into(),
        decision: Some(format!("adm-{number:08}").into()),
    }
}

/// Reports of a node: pod `n` has GPU `n / NODES` of node `n % NODES`.
fn report(number: usize) -> NodeReport {
    let devices = (0..GPUS).map(|gpu| DeviceReport {
        uuid: format!("GPU-5c1a{gpu:04x}-7d2e-4f3b-9a6c-{number:012x}").into(),
        index: u16::try_from(gpu).ok(),
        profile: None,
        holders: Some([uid(1, gpu * NODES + number)].into()),
        shared: false,
        open: Some(Box::default()),
        health: Health::Healthy,
    });
    NodeReport {
        node: uid(2, number),
        boot: format!("b07c8d4e-9d2f-4b6e-a5c1-{number:012x}").into(),
        instance: 1,
        seq: 1,
        at: Timestamp(1_700_000_000_000),
        runtime: None,
        devices: devices.collect(),
    }
}

/// The batches of a list, one for each page.
fn list<T>(round: u64, all: impl Iterator<Item = T>) -> impl Iterator<Item = Batch<T>> {
    let mut events = [WatchEvent::Init]
        .into_iter()
        .chain(all.map(WatchEvent::InitApply))
        .chain([WatchEvent::InitDone])
        .peekable();
    let mut seq = 0;
    std::iter::from_fn(move || {
        events.peek()?;
        let mark = Mark { term: Term(1), round, seq };
        seq += 1;
        Some(Batch { mark, at: Timestamp(1_700_000_000_000), events: events.by_ref().take(PAGE).collect() })
    })
}

fn main() -> ExitCode {
    let mut index = ClusterIndex::default();
    let (began, before) = (Instant::now(), resident());
    for batch in list(1, (0..PODS).map(pod)) {
        index.apply_pods(batch).expect("a list");
    }
    let (first, pods) = (began.elapsed(), resident().saturating_sub(before));
    println!(
        "first list of {PODS} pods: {first:.1?}, {} MB ({} bytes each)",
        pods / 1_000_000,
        pods / 100_000
    );

    let before = resident();
    for batch in list(1, (0..NODES).map(node)) {
        index.apply_nodes(batch).expect("a list");
    }
    for number in 0..NODES {
        index.report(&report(number)).expect("a report");
    }
    println!("{NODES} nodes with {GPUS} GPUs: {} MB", resident().saturating_sub(before) / 1_000_000);
    let before = resident();
    for batch in list(1, (0..WORKLOADS).map(workload)) {
        index.apply_workloads(batch).expect("a list");
    }
    println!("{WORKLOADS} workloads: {} MB", resident().saturating_sub(before) / 1_000_000);

    // One pod in a hundred has ended, as many are new, and one in ten has changed.
    let (began, before) = (Instant::now(), resident());
    let changed = (PODS / 100..PODS + PODS / 100).map(pod);
    let changed =
        changed.map(|pod| if pod.version % 10 == 0 { PodObject { version: 2_000_000, ..pod } } else { pod });
    let mut deltas = 0;
    for batch in list(2, changed) {
        deltas += index.apply_pods(batch).expect("a list").len();
    }
    let (relist, peak) = (began.elapsed(), resident().saturating_sub(before));
    println!("relist: {relist:.1?} (at most {RELIST:?}), {deltas} changes, {} MB more", peak / 1_000_000);

    let vanished = index.pods().counts().vanished;
    println!("vanished {vanished}, pods {} MB of {} MB", (pods + peak) / 1_000_000, MEMORY / 1_000_000);
    let complete = usize::try_from(vanished) == Ok(PODS / 100) && index.pods().len() == PODS;
    if pods + peak < MEMORY && relist < RELIST && complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
