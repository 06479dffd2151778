//! What serves which cluster: the file of targets, the simulated world for all else, and the ledger, which must say the same.

use crate::{config::Config, state::ServerState};
use backends::{
    Connected,
    simulated::{World, simulated_platform},
    targets::Targets,
};
use engine::{ActionError, Undecided, View};
use program::exit::{Exit, Failure};
use std::{path::Path, sync::Arc};
use workflows::{
    fleet::Sites,
    platform::Platform,
    tenancy::{Cluster, ClusterId, ClusterKind, Region, RegionIndex},
};

/// A cluster in the ledger and the file of targets do not agree. Not stored: the server does not start.
const DISAGREE: &str = "targets.disagree";

/// The platform of these settings, with the queues for its agents.
pub(crate) async fn platform(config: &Config, world: Arc<dyn World>) -> Result<Connected, Failure> {
    let platform = simulated_platform(world);
    if config.targets.is_empty() {
        return Ok(Connected { platform, agents: Arc::default() });
    }
    let wrong = |why| Failure::new(Exit::Usage, format!("configuration: targets: {why}"));
    let targets = Targets::read(Path::new(&config.targets)).map_err(wrong)?;
    targets.connect(platform).await.map_err(wrong)
}

/// Has the ledger say of every cluster what serves it, so that plans say it too.
///
/// # Errors
/// A cluster that was served by a backend and is not any more, which would be acted on in the simulated world alone; one that the
/// file has something for that it is not.
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

/// Has the ledger say of a cluster what serves it.
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
                "cluster {id} was served by {} and the file names it no more: name it under `clusters`, or write `simulated: {{}}` \
                 for it there if nothing real is to be changed any more",
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
            "clusters.{id} is a cluster of kind {needed} in the fleet, and the file has {backend} alone for it: add {needed}"
        ));
    }
    if cluster.backend != backend {
        tracing::warn!(cluster = %id, was = cluster.backend, is = backend, "the cluster is served by another backend than it was");
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

/// What the server says at its start of what it acts on.
pub(crate) fn describe(app: &ServerState, world: &str) -> String {
    let backends = app.engine.platform().backends();
    let real = backends.iter().filter(|(part, backend)| **backend != "simulated" && **part != "records");
    let real: Vec<String> = real.map(|(part, backend)| format!("  {part}: {backend}\n")).collect();
    if real.is_empty() {
        return format!("platform: simulated, {world}; no real cluster is changed\n");
    }
    let file = &app.config.targets;
    format!("platform: {file} says what is real; all else is simulated, {world}\n{}", real.concat())
}
