//! Sees what is on simulated clusters, so that admission there has something to go by. Real clusters push their facts
//! themselves, under their own key, to `/v1/clusters/{id}/facts`.

use crate::state::{ServerState, SharedState};
use engine::Entity as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{Epoch, Timestamp};
use tokio::sync::watch;
use workflows::{
    platform::{ANSWER_WITHIN, CallMetadata},
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, Observation, ObservedKind},
    tenancy::{Cluster, GpuKind, LastObservation, Name, NodeId, NodeUse, Occupancy, layout_offers},
};

/// Tenants read in one go.
const PAGE: usize = 500;
/// New nodes are seen soon after they serve.
const PAUSE: Duration = Duration::from_millis(500);
/// How often what was seen is told again, well within the two minutes after which admission trusts it no more.
const EVERY: Duration = Duration::from_secs(30);

/// Looks until `stop` says so.
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
                tracing::warn!(why, "the simulated clusters could not be looked at; trying again");
            }
            clock.sleep_until(clock.now().after(PAUSE)).await;
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = look => {}
        }
    }
}

/// Looks at every tenant whose nodes were not seen for long.
async fn observe_all(app: &ServerState) -> Result<(), String> {
    let mut after = None;
    loop {
        let store = app.engine.store();
        let found = store.documents(Occupancy::COLLECTION, "", after.as_deref(), PAGE).await;
        let found = found.map_err(|e| e.to_string())?;
        for document in &found.items {
            let occupancy: Occupancy = serde_json::from_slice(&document.body)
                .map_err(|e| format!("{} cannot be read: {e}", document.key))?;
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
    let mut seen = Observation { at, nodes: BTreeMap::new() };
    for (node, kinds) in &occupancy.nodes {
        let busy = busy(app, occupancy, node, at).await?;
        let layout = hardware_layout(app, occupancy, node, at).await?;
        let of = |kind: &GpuKind, capacity: u64| {
            let offered = layout_offers(&layout, kind.profile.as_ref().map(Name::as_str));
            let usable = if offered { capacity } else { 0 };
            ObservedKind { usable, busy: busy.min(usable) }
        };
        let kinds = kinds.iter().map(|(kind, room)| (kind.clone(), of(kind, room.capacity)));
        seen.nodes.insert(node.clone(), kinds.collect());
    }
    let tenant = &occupancy.tenant;
    let mut more = apply(app, |view| Ok(admission::observe(view, tenant, &seen)?.news)).await?;
    while more {
        more = apply(app, |view| admission::admit_queued(view, tenant)).await?;
    }
    Ok(())
}

/// Changes the account, begins what that calls for, and answers whether more can be admitted.
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

/// How many GPUs of a node somebody is on, as the world says.
async fn busy(app: &ServerState, occupancy: &Occupancy, node: &NodeId, at: Timestamp) -> Result<u64, String> {
    let read = app.engine.transact(false, |view| view.get::<NodeUse>(node.as_str())).await;
    let gpus = read.map_err(|e| e.to_string())?.map_or(0, |node| node.gpus.len());
    let all: BTreeSet<u16> = (0..u16::try_from(gpus).unwrap_or(u16::MAX)).collect();
    if clients(app, occupancy, node, &all, at).await? == 0 {
        return Ok(0);
    }
    let mut busy = 0;
    for gpu in all {
        busy += u64::from(clients(app, occupancy, node, &[gpu].into(), at).await? > 0);
    }
    Ok(busy)
}

/// How the hardware of a node is cut, which says what can be used on it.
async fn hardware_layout(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeId,
    at: Timestamp,
) -> Result<String, String> {
    let stamp = stamp(format!("observe/{node}/{}/layout", at.0));
    let gpus = &app.engine.platform().gpus;
    let found = gpus.layout(occupancy.cluster.as_str(), node.as_str(), &stamp).await;
    found.map(|layout| layout.hardware).map_err(|e| e.message)
}

/// One look at a node.
fn stamp(key: String) -> CallMetadata {
    CallMetadata {
        action: "ObserveNode",
        step: key.clone(),
        key,
        epoch: Epoch(0),
        undo: false,
        deadline: ANSWER_WITHIN,
        dry_run: false,
    }
}

async fn clients(
    app: &ServerState,
    occupancy: &Occupancy,
    node: &NodeId,
    gpus: &BTreeSet<u16>,
    at: Timestamp,
) -> Result<usize, String> {
    let stamp = stamp(format!("observe/{node}/{}/{}", at.0, gpus.len()));
    let workloads = &app.engine.platform().workloads;
    let found = workloads.clients(occupancy.cluster.as_str(), node.as_str(), gpus, &stamp).await;
    found.map(|names| names.len()).map_err(|e| e.message)
}
