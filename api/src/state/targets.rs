//! The backends of clusters: the file of targets, the simulated platform for other clusters, and the ledger, which must agree.

use crate::{config::Config, state::ServerState};
use backends::{
    Connected,
    simulated::{World, simulated_platform},
    targets::Targets,
};
use engine::{ActionError, Entity, Undecided, View};
use program::exit::{Exit, Failure};
use std::{collections::BTreeSet, path::Path, sync::Arc};
use workflows::{
    fleet::Sites,
    platform::Platform,
    tenancy::{
        Cluster, ClusterClasses, ClusterId, ClusterKind, NodeAllocation, Region, RegionIndex, TenantId,
    },
};

/// The ledger and the file of targets disagree about a cluster. Not stored: the server does not start.
const DISAGREE: &str = "targets.disagree";
/// The number of documents read at once.
const PAGE: usize = 500;

/// Returns the platform of these settings, with the queues for its agents.
pub(crate) async fn platform(config: &Config, world: Arc<dyn World>) -> Result<Connected, Failure> {
    let platform = simulated_platform(world);
    if config.targets.is_empty() {
        return Ok(Connected { platform, agents: Arc::default() });
    }
    let wrong = |why| Failure::new(Exit::Usage, format!("configuration: targets: {why}"));
    let targets = Targets::read(Path::new(&config.targets)).map_err(wrong)?;
    targets.connect(platform).await.map_err(wrong)
}

/// Records the backend of every cluster in the ledger, so that plans show it.
///
/// # Errors
/// A cluster lost its backend, so actions would only change the simulated platform; or the file has a backend of the wrong kind for a cluster.
pub(crate) async fn reconcile_ledger(app: &ServerState) -> Result<(), Failure> {
    let platform = app.engine.platform();
    let agreed = app.engine.transact(true, |view| {
        let regions = view.get::<RegionIndex>(RegionIndex::ID)?.unwrap_or_default().regions;
        for region in regions {
            for id in view.require::<Region>(region.as_str())?.clusters {
                record_backend(view, platform, &id)?;
            }
        }
        Ok(())
    });
    agreed.await.map_err(|error| Failure::new(Exit::Usage, format!("configuration: targets: {error}")))
}

/// Records the classes of workspaces in each cluster for tenants whose nodes an earlier version claimed. After a failure, as in a store that is held, the next
/// start records them.
pub(crate) async fn record_classes(app: &ServerState) {
    if let Err(why) = try_record_classes(app).await {
        tracing::warn!(
            why,
            "the classes of earlier tenants were not recorded; until the next start, lending.anti_colocate does not see them"
        );
    }
}

async fn try_record_classes(app: &ServerState) -> Result<(), String> {
    let mut known: BTreeSet<(ClusterId, TenantId)> = BTreeSet::new();
    for there in stored::<ClusterClasses>(app).await.map_err(|e| e.to_string())? {
        known.extend(there.tenants.into_keys().map(|tenant| (there.cluster.clone(), tenant)));
    }
    for held in stored::<NodeAllocation>(app).await.map_err(|e| e.to_string())? {
        // The tenant of quarantined nodes has left.
        if held.nodes.is_empty() || known.contains(&(held.cluster.clone(), held.tenant.clone())) {
            continue;
        }
        let record = |view: &mut View| {
            let there = view.get::<NodeAllocation>(held.tenant.as_str())?;
            match there.filter(|there| there.cluster == held.cluster) {
                Some(_) => ClusterClasses::record(view, &held.cluster, &held.tenant),
                None => Ok(()),
            }
        };
        app.engine.transact(true, record).await.map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Returns all documents of a kind.
async fn stored<T: Entity>(app: &ServerState) -> Result<Vec<T>, store::Error> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let found = app.engine.store().documents(T::COLLECTION, "", after.as_deref(), PAGE).await?;
        for document in &found.items {
            let corrupt = |e: serde_json::Error| store::Error::Corrupt {
                what: document.key.to_string(),
                why: e.to_string(),
            };
            all.push(serde_json::from_slice(&document.body).map_err(corrupt)?);
        }
        after = found.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Records the backend of a cluster in the ledger.
pub(crate) fn record_backend(view: &mut View, platform: &Platform, id: &ClusterId) -> Result<(), Undecided> {
    let Some(mut cluster) = view.get::<Cluster>(id.as_str())? else { return Ok(()) };
    if cluster.unready != platform.unready(id.as_str()) {
        cluster.unready = platform.unready(id.as_str()).to_vec();
        for lack in &cluster.unready {
            tracing::warn!(cluster = %id, lack, "no tenant can be onboarded in the cluster");
        }
        view.put(&cluster)?;
    }
    let disagree = |why: String| Err(ActionError::permanent(DISAGREE, why).into());
    let Some(backend) = platform.backend_of(id.as_str()) else {
        if Platform::BACKENDS.contains(&cluster.backend.as_str()) && !platform.stays_simulated(id.as_str()) {
            return disagree(format!(
                "cluster {id} had the backend {}, but the file no longer names the cluster: add it under `clusters`, or write `simulated: {{}}` for it if it is not a real cluster",
                cluster.backend
            ));
        }
        if !cluster.is_simulated() {
            tracing::warn!(cluster = %id, was = cluster.backend, "the cluster is simulated: the file of targets names no backend for it");
            view.put(&Cluster { backend: Cluster::SIMULATED.to_owned(), ..cluster })?;
        }
        return Ok(());
    };
    let needed = match cluster.kind {
        ClusterKind::Kubernetes => Some("kubernetes"),
        ClusterKind::Slurm => Some("slurm"),
        ClusterKind::BareMetal => None,
    };
    if let Some(needed) = needed.filter(|needed| !backend.contains(needed)) {
        return disagree(format!(
            "clusters.{id} has the kind {needed} in the fleet, but only {backend} in the file: add {needed}"
        ));
    }
    if cluster.backend != backend {
        tracing::warn!(cluster = %id, was = cluster.backend, is = backend, "the cluster has another backend than before");
        view.put(&Cluster { backend: backend.to_owned(), ..cluster })?;
    }
    Ok(())
}

/// The sites with what serves each cluster, whatever they say of it. A cluster that the platform has no backend for is simulated;
/// a name of [`Platform::BACKENDS`] stays, so that the missing target is told.
pub(crate) fn with_backends(mut sites: Sites, platform: &Platform) -> Sites {
    for row in &mut sites.clusters {
        let id = row.id.as_str();
        match platform.backend_of(id) {
            Some(backend) => backend.clone_into(&mut row.backend),
            None if Platform::BACKENDS.contains(&row.backend.as_str()) && !platform.stays_simulated(id) => {}
            None => Cluster::SIMULATED.clone_into(&mut row.backend),
        }
    }
    sites
}

/// Describes the platform at the start of the server.
pub(crate) fn describe(app: &ServerState, world: &str) -> String {
    let backends = app.engine.platform().backends();
    let real = backends.iter().filter(|(part, backend)| **backend != "simulated" && **part != "records");
    let real: Vec<String> = real.map(|(part, backend)| format!("  {part}: {backend}\n")).collect();
    if real.is_empty() {
        return format!("platform: simulated, {world}; no real cluster is changed\n");
    }
    let file = &app.config.targets;
    format!("platform: real targets from {file}; all others are simulated, {world}\n{}", real.concat())
}
