//! The simulated platform as a source of watch events and node reports.
//!
//! Every look is a complete list of a tenant's nodes and of the processes on them. Simulated objects have no UIDs, so their names identify them.

use crate::state::ServerState;
use std::collections::{BTreeMap, BTreeSet};
use store::{CompositeKey, Epoch, Timestamp};
use workflows::{
    observed::{
        Batch, ClusterIndex, Containers, Counts, DeviceReport, Health, Mark, NodeObject, NodeReport,
        NodeStock, PodObject, PodPhase, Readiness, Term, Uid, WatchEvent,
    },
    platform::{ANSWER_WITHIN, CallMetadata},
    tenancy::{NodeId, NodeUse, Occupancy},
};

/// The index of the nodes of one tenant.
#[derive(Default)]
pub(super) struct Source {
    pub(super) index: ClusterIndex,
    /// The counts of nodes and pods that metrics have.
    pub(super) measured: [Counts; 2],
    term: Term,
    /// The number of looks in this term.
    round: u64,
    /// The number of looks since the source was created.
    looks: u64,
}

/// One look at all nodes of a tenant.
#[derive(Default)]
struct Look {
    nodes: Vec<NodeObject>,
    pods: Vec<PodObject>,
    reports: Vec<NodeReport>,
}

/// What a look needs to know about a node.
struct NodeLook<'a> {
    id: &'a NodeId,
    uid: Uid,
    gpus: u16,
    at: Timestamp,
}

impl Source {
    /// Lists nodes and processes, and applies them to the index. A list that fails changes nothing. Returns what the ledger has on the nodes.
    pub(super) async fn look(
        &mut self,
        app: &ServerState,
        occupancy: &Occupancy,
        (term, at): (Term, Timestamp),
    ) -> Result<BTreeMap<NodeId, NodeStock>, String> {
        self.round = if self.term == term { self.round.saturating_add(1) } else { 0 };
        (self.term, self.looks) = (term, self.looks.saturating_add(1));
        let (mut look, mut stocks) = (Look::default(), BTreeMap::new());
        for (id, kinds) in &occupancy.nodes {
            let node_use = app.engine.transact(false, |view| view.get::<NodeUse>(id.as_str())).await;
            let gpus = node_use.map_err(|e| e.to_string())?.map(|node| node.gpus).unwrap_or_default();
            let barred = (0_u16..).zip(&gpus).filter(|(_, gpu)| gpu.barred.is_some()).map(|(index, _)| index);
            let kinds = kinds.iter().map(|(kind, room)| (kind.clone(), room.capacity));
            stocks.insert(id.clone(), NodeStock { kinds: kinds.collect(), barred: barred.collect() });
            let uid = Uid::of_parts(&[&"simulated", &occupancy.cluster, id]);
            let gpus = u16::try_from(gpus.len()).unwrap_or(u16::MAX);
            self.look_at(app, occupancy, &NodeLook { id, uid, gpus, at }, &mut look).await?;
        }
        let mark = Mark { term, round: self.round, seq: 0 };
        self.index.apply_nodes(list(mark, at, look.nodes)).map_err(|e| e.to_string())?;
        self.index.apply_pods(list(mark, at, look.pods)).map_err(|e| e.to_string())?;
        for report in &look.reports {
            self.index.report(report).map_err(|e| e.to_string())?;
        }
        Ok(stocks)
    }

    async fn look_at(
        &self,
        app: &ServerState,
        occupancy: &Occupancy,
        node: &NodeLook<'_>,
        look: &mut Look,
    ) -> Result<(), String> {
        let open = open_gpus(app, occupancy, node).await?;
        let layout = hardware_layout(app, occupancy, node).await?;
        let pods = pods(occupancy, node, &open);
        let devices = (0..node.gpus).map(|gpu| {
            let names = open.get(&gpu).into_iter().flatten();
            device(occupancy, node, gpu, names)
        });
        look.reports.push(NodeReport {
            node: node.uid,
            boot: Box::default(),
            instance: 0,
            seq: self.looks,
            at: node.at,
            runtime: Some(pods.iter().map(|pod| pod.uid).collect()),
            devices: devices.collect(),
        });
        look.pods.extend(pods);
        look.nodes.push(NodeObject {
            uid: node.uid,
            version: 0,
            name: node.id.as_str().into(),
            system_uuid: Box::default(),
            boot_id: Box::default(),
            readiness: Readiness::Ready,
            cordoned: false,
            taints: Box::default(),
            driver: Box::default(),
            layout: layout.into(),
            allocatable: Box::default(),
        });
        Ok(())
    }
}

fn list<T>(mark: Mark, at: Timestamp, objects: Vec<T>) -> Batch<T> {
    let objects = objects.into_iter().map(WatchEvent::InitApply);
    let events = [WatchEvent::Init].into_iter().chain(objects).chain([WatchEvent::InitDone]);
    Batch { mark, at, events: events.collect() }
}

fn pod_uid(occupancy: &Occupancy, node: &NodeLook<'_>, name: &str) -> Uid {
    Uid::of_parts(&[&"simulated", &occupancy.cluster, node.id, &name])
}

/// Returns one pod for each name. It takes the GPUs that it has alone: the shares of a shared GPU are not known.
fn pods(occupancy: &Occupancy, node: &NodeLook<'_>, open: &BTreeMap<u16, Vec<String>>) -> Vec<PodObject> {
    let mut alone: BTreeMap<&str, u32> = BTreeMap::new();
    for names in open.values() {
        for name in names {
            *alone.entry(name).or_default() += u32::from(names.len() == 1);
        }
    }
    let pod = |(name, gpus): (&str, u32)| {
        let of_tenant = name.strip_prefix(occupancy.tenant.as_str()).and_then(|rest| rest.strip_prefix('/'));
        PodObject {
            uid: pod_uid(occupancy, node, name),
            version: 0,
            namespace: occupancy.tenant.as_str().into(),
            name: name.into(),
            owners: Box::default(),
            node: Some(node.id.as_str().into()),
            phase: PodPhase::Running,
            deletion: None,
            containers: Containers { waiting: 0, running: 1, terminated: 0 },
            rejected: false,
            gpus: of_tenant.map_or(0, |_| gpus),
            profile: None,
            claims: Box::default(),
            workload: of_tenant.map(Into::into),
            decision: None,
            started: None,
        }
    };
    alone.into_iter().map(pod).collect()
}

/// Returns the report of a GPU, which is named by node and index.
fn device<'a>(
    occupancy: &Occupancy,
    node: &NodeLook<'_>,
    gpu: u16,
    names: impl Iterator<Item = &'a String>,
) -> DeviceReport {
    DeviceReport {
        uuid: format!("GPU-{}-{gpu}", node.id).into(),
        index: Some(gpu),
        profile: None,
        holders: Some(names.map(|name| pod_uid(occupancy, node, name)).collect()),
        shared: true,
        open: Some(Box::default()),
        health: Health::Healthy,
    }
}

/// Returns the open GPUs of a node, each with the names of its clients.
async fn open_gpus(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeLook<'_>,
) -> Result<BTreeMap<u16, Vec<String>>, String> {
    let all: BTreeSet<u16> = (0..node.gpus).collect();
    let mut open = BTreeMap::new();
    if clients(app, occupancy, node, &all).await?.is_empty() {
        return Ok(open);
    }
    for gpu in all {
        let names = clients(app, occupancy, node, &[gpu].into()).await?;
        if !names.is_empty() {
            open.insert(gpu, names);
        }
    }
    Ok(open)
}

/// Returns the partition of a node's hardware, which limits its use.
async fn hardware_layout(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeLook<'_>,
) -> Result<String, String> {
    let key = String::from(CompositeKey::of(&[&"observe", node.id, &node.at.0, &"layout"]));
    let stamp = stamp("ObserveNode", key);
    let gpus = &app.engine.platform().gpus;
    let found = gpus.layout(occupancy.cluster.as_str(), node.id.as_str(), &stamp).await;
    found.map(|layout| layout.hardware).map_err(|e| e.message)
}

async fn clients(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeLook<'_>,
    gpus: &BTreeSet<u16>,
) -> Result<Vec<String>, String> {
    let key = String::from(CompositeKey::of(&[&"observe", node.id, &node.at.0, &gpus.len()]));
    let stamp = stamp("ObserveNode", key);
    let workloads = &app.engine.platform().workloads;
    let found = workloads.clients(occupancy.cluster.as_str(), node.id.as_str(), gpus, &stamp).await;
    found.map_err(|e| e.message)
}

pub(super) fn stamp(action: &'static str, key: String) -> CallMetadata {
    let (step, epoch, deadline) = (key.clone(), Epoch(0), ANSWER_WITHIN);
    CallMetadata { action, step, key, epoch, undo: false, deadline, dry_run: false }
}
