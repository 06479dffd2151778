//! Observes simulated clusters, so that admission has facts. Real clusters push their facts with their own key to `/v1/clusters/{id}/facts`.

use crate::state::{ServerState, SharedState};
use engine::Entity as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{CompositeKey, Epoch, Timestamp};
use tokio::sync::watch;
use workflows::{
    platform::{ANSWER_WITHIN, CallMetadata, WorkloadRef},
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, Observation, ObservedKind},
    tenancy::{
        Cluster, GpuKind, LastObservation, Name, NodeId, NodeUse, Occupancy, SeenGpu, SeenWorkload, Workload,
        WorkloadState, layout_offers,
    },
};

/// The number of tenants read at once.
const PAGE: usize = 500;
/// New nodes are observed soon after they enter service.
const PAUSE: Duration = Duration::from_millis(500);
/// The interval of observations, well below the two minutes after which admission ignores old facts.
const EVERY: Duration = Duration::from_secs(30);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    if !app.config.simulated.observe {
        return;
    }
    let clock = app.engine.clock().clone();
    loop {
        if !app.free(&mut stop).await {
            return;
        }
        let look = async {
            if let Err(why) = observe_all(&app).await {
                tracing::warn!(why, "cannot observe the simulated clusters; trying again");
            }
            clock.sleep_until(clock.now().after(PAUSE)).await;
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = look => {}
        }
    }
}

/// Observes every tenant whose nodes have old facts.
async fn observe_all(app: &ServerState) -> Result<(), String> {
    let mut after = None;
    loop {
        let store = app.engine.store();
        let found = store.documents(Occupancy::COLLECTION, "", after.as_deref(), PAGE).await;
        let found = found.map_err(|e| e.to_string())?;
        for document in &found.items {
            let occupancy: Occupancy = serde_json::from_slice(&document.body)
                .map_err(|e| format!("cannot read {}: {e}", document.key))?;
            let now = app.engine.clock().now();
            let recent = |at: Timestamp| at.is_recent(EVERY, now);
            let seen = app
                .engine
                .transact(false, |view| view.get::<LastObservation>(occupancy.tenant.as_str()))
                .await;
            let seen = seen.map_err(|e| e.to_string())?.map(|sighting| sighting.at);
            if !seen.is_some_and(recent) && simulated(app, &occupancy).await? {
                observe(app, &occupancy, now).await?;
            }
        }
        after = found.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn simulated(app: &ServerState, occupancy: &Occupancy) -> Result<bool, String> {
    let read = app.engine.transact(false, |view| view.get::<Cluster>(occupancy.cluster.as_str())).await;
    Ok(read.map_err(|e| e.to_string())?.is_some_and(|cluster| cluster.is_simulated()))
}

async fn observe(app: &ServerState, occupancy: &Occupancy, at: Timestamp) -> Result<(), String> {
    let (mut seen, mut running) = (Observation { at, nodes: BTreeMap::new() }, Vec::new());
    for (node, kinds) in &occupancy.nodes {
        let on = on_node(app, occupancy, node, at).await?;
        let busy = u64::try_from(on.len()).unwrap_or(u64::MAX);
        running.extend(who_runs(occupancy, node, &on));
        let layout = hardware_layout(app, occupancy, node, at).await?;
        let of = |kind: &GpuKind, capacity: u64| {
            let offered = layout_offers(&layout, kind.profile.as_ref().map(Name::as_str));
            let usable = if offered { capacity } else { 0 };
            ObservedKind { usable, busy: busy.min(usable) }
        };
        let kinds = kinds.iter().map(|(kind, room)| (kind.clone(), of(kind, room.capacity)));
        seen.nodes.insert(node.clone(), kinds.collect());
    }
    end_finished(app, occupancy, (&running, at)).await?;
    let tenant = &occupancy.tenant;
    let mut more =
        apply(app, |view| Ok(admission::observe_running(view, tenant, &seen, &running)?.news)).await?;
    while more {
        more = apply(app, |view| admission::admit_queued(view, tenant)).await?;
    }
    Ok(())
}

/// Changes the account and starts the resulting executions. Returns true if more workloads can be admitted.
async fn apply(
    app: &ServerState,
    mut change: impl FnMut(&mut engine::View) -> Result<admission::AdmissionEffects, engine::Undecided>,
) -> Result<bool, String> {
    let changed = app.engine.transact(true, |view| {
        let news = change(view)?;
        start_reclaims(view, &news)?;
        Ok(news.more)
    });
    changed.await.map_err(|e| e.to_string())
}

/// Returns the open GPUs of a node, each with the names of its clients.
async fn on_node(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeId,
    at: Timestamp,
) -> Result<BTreeMap<u16, Vec<String>>, String> {
    let read = app.engine.transact(false, |view| view.get::<NodeUse>(node.as_str())).await;
    let gpus = read.map_err(|e| e.to_string())?.map_or(0, |node| node.gpus.len());
    let all: BTreeSet<u16> = (0..u16::try_from(gpus).unwrap_or(u16::MAX)).collect();
    let mut open = BTreeMap::new();
    if clients(app, occupancy, node, &all, at).await?.is_empty() {
        return Ok(open);
    }
    for gpu in all {
        let names = clients(app, occupancy, node, &[gpu].into(), at).await?;
        if !names.is_empty() {
            open.insert(gpu, names);
        }
    }
    Ok(open)
}

/// Returns the tenant's workloads with whole GPUs of a node. A simulated GPU is named by node and index.
fn who_runs(occupancy: &Occupancy, node: &NodeId, open: &BTreeMap<u16, Vec<String>>) -> Vec<SeenWorkload> {
    let mut by_name: BTreeMap<&str, BTreeSet<SeenGpu>> = BTreeMap::new();
    for (gpu, names) in open {
        // For a shared GPU, the share of each client is unknown.
        let [name] = names.as_slice() else { continue };
        let of_tenant = name.strip_prefix(occupancy.tenant.as_str()).and_then(|rest| rest.strip_prefix('/'));
        if let Some(name) = of_tenant {
            let seen = SeenGpu { uuid: format!("GPU-{node}-{gpu}"), index: Some(*gpu) };
            by_name.entry(name).or_default().insert(seen);
        }
    }
    let seen = |(name, gpus): (&str, BTreeSet<SeenGpu>)| SeenWorkload {
        workload: name.to_owned(),
        uid: None,
        node: node.clone(),
        node_uid: None,
        kind: None,
        count: None,
        gpus,
        since: None,
    };
    by_name.into_iter().map(seen).collect()
}

/// Returns the partition of a node's hardware, which limits its use.
async fn hardware_layout(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeId,
    at: Timestamp,
) -> Result<String, String> {
    let key = String::from(CompositeKey::of(&[&"observe", &node, &at.0, &"layout"]));
    let stamp = stamp("ObserveNode", key);
    let gpus = &app.engine.platform().gpus;
    let found = gpus.layout(occupancy.cluster.as_str(), node.as_str(), &stamp).await;
    found.map(|layout| layout.hardware).map_err(|e| e.message)
}

async fn clients(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeId,
    gpus: &BTreeSet<u16>,
    at: Timestamp,
) -> Result<Vec<String>, String> {
    let key = String::from(CompositeKey::of(&[&"observe", &node, &at.0, &gpus.len()]));
    let stamp = stamp("ObserveNode", key);
    let workloads = &app.engine.platform().workloads;
    let found = workloads.clients(occupancy.cluster.as_str(), node.as_str(), gpus, &stamp).await;
    found.map_err(|e| e.message)
}

/// Ends workloads in the simulated cluster that have finished in the ledger: a workload may have ended while it was being started.
async fn end_finished(
    app: &ServerState,
    occupancy: &Occupancy,
    (running, at): (&[SeenWorkload], Timestamp),
) -> Result<(), String> {
    let names: BTreeSet<&str> = running.iter().map(|seen| seen.workload.as_str()).collect();
    for name in names {
        let key = Workload::key(&occupancy.tenant, name);
        let read = app.engine.transact(false, |view| view.get::<Workload>(&key)).await;
        let finished = read.map_err(|e| e.to_string())?.filter(|it| it.state == WorkloadState::Finished);
        let Some(workload) = finished else { continue };
        let of = WorkloadRef {
            cluster: occupancy.cluster.to_string(),
            tenant: occupancy.tenant.to_string(),
            workspace: workload.workspace.to_string(),
            name: workload.name,
        };
        let stamp = stamp("EndWorkload", String::from(CompositeKey::of(&[&"ended", &of.full_name(), &at.0])));
        app.engine.platform().workloads.notify_ended(&of, &stamp).await.map_err(|e| e.message)?;
    }
    Ok(())
}

fn stamp(action: &'static str, key: String) -> CallMetadata {
    let (step, epoch, deadline) = (key.clone(), Epoch(0), ANSWER_WITHIN);
    CallMetadata { action, step, key, epoch, undo: false, deadline, dry_run: false }
}
