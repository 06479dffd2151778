//! The capacity in the ledger, as input for placement.

use crate::{
    placement::{
        Candidate, CapacityShortage, Constraints, FreeNodes, NodeRequest, Placement, eligible, place, usable,
    },
    tenancy::{
        Cluster, ClusterClasses, FreePool, FreePoolChunk, GpuModel, Gpus, Node, Region, RegionIndex, TenantId,
    },
};
use engine::{Undecided, View};
use std::collections::BTreeSet;

/// The maximum number of clusters without the model in a decision. Decisions are stored, so their length is bounded.
const MOST_WITHOUT_MODEL: usize = 128;

/// Returns all clusters with their counts of `model`. Clusters without the model are included, so that an explanation can count them.
///
/// # Errors
/// The read errors of the view.
pub fn candidates(view: &mut View, model: &GpuModel) -> Result<Vec<Candidate>, Undecided> {
    let atlas = view.get::<RegionIndex>(RegionIndex::ID)?.unwrap_or_default();
    view.prefetch::<Region>(atlas.regions.iter().map(ToString::to_string))?;
    let mut regions = Vec::new();
    for id in &atlas.regions {
        regions.push(view.require::<Region>(id.as_str())?);
    }
    view.prefetch::<Cluster>(regions.iter().flat_map(|region| &region.clusters).map(ToString::to_string))?;
    let mut found = Vec::new();
    for region in regions {
        for id in &region.clusters {
            let cluster = view.require::<Cluster>(id.as_str())?;
            found.push((region.clone(), cluster));
        }
    }
    let have = found.iter().filter(|(_, cluster)| cluster.models.contains(model));
    view.prefetch::<FreePool>(have.map(|(_, cluster)| FreePool::key(&cluster.id, model)))?;
    let (mut candidates, mut without) = (Vec::new(), 0);
    for (region, cluster) in found {
        let pool = match cluster.models.contains(model) {
            true => view.get::<FreePool>(&FreePool::key(&cluster.id, model))?,
            false => None,
        };
        without += usize::from(pool.is_none());
        if pool.is_none() && without > MOST_WITHOUT_MODEL {
            continue;
        }
        let (total, free) = pool.map_or((Gpus::ZERO, Gpus::ZERO), |pool| (pool.gpus(), pool.free()));
        candidates.push(Candidate {
            simulated: cluster.is_simulated(),
            cluster: cluster.id,
            jurisdiction: region.jurisdiction.clone(),
            kind: cluster.kind,
            tenancy: cluster.tenancy,
            total,
            free,
            buffer: region.buffer.for_model(model),
            unready: cluster.unready,
            classes: BTreeSet::new(),
            region: region.id,
        });
    }
    Ok(candidates)
}

/// Adds the classes of other tenants' workspaces to the clusters that have the model.
///
/// # Errors
/// The read errors of the view.
pub(super) fn add_classes(
    view: &mut View,
    candidates: &mut [Candidate],
    tenant: &TenantId,
) -> Result<(), Undecided> {
    let have = || candidates.iter().filter(|candidate| candidate.total > Gpus::ZERO);
    view.prefetch::<ClusterClasses>(have().map(|candidate| candidate.cluster.to_string()))?;
    for candidate in candidates.iter_mut().filter(|candidate| candidate.total > Gpus::ZERO) {
        let there = view.get::<ClusterClasses>(candidate.cluster.as_str())?;
        candidate.classes = there.map(|there| there.beside(tenant)).unwrap_or_default();
    }
    Ok(())
}

/// Chooses nodes for `ask` from `candidates`. Reads the node lists only of clusters with sufficient capacity. Skips nodes with a driver that is not
/// allowed.
///
/// # Errors
/// The read errors of the view.
pub fn choose(
    view: &mut View,
    candidates: &[Candidate],
    ask: &NodeRequest,
    constraints: &Constraints,
) -> Result<Result<Placement, CapacityShortage>, Undecided> {
    let (allowed, _) = eligible(candidates, constraints);
    let mut keys = Vec::new();
    for candidate in allowed.iter().filter(|c| usable(c, candidates, constraints) >= ask.gpus) {
        let pool = view.require::<FreePool>(&FreePool::key(&candidate.cluster, &ask.model))?;
        keys.extend(pool.chunks_with_free_nodes().into_iter().map(|key| (candidate.cluster.clone(), key)));
    }
    view.prefetch::<FreePoolChunk>(keys.iter().map(|(_, key)| key.clone()))?;
    let mut stock = FreeNodes::new();
    for (cluster, key) in keys {
        let chunk = view.require::<FreePoolChunk>(&key)?;
        stock.entry(cluster).or_default().extend(chunk.free);
    }
    loop {
        let placement = match place(candidates, &stock, ask, constraints) {
            Ok(placement) => placement,
            Err(short) => return Ok(Err(short)),
        };
        view.prefetch::<Node>(placement.nodes.keys().map(ToString::to_string))?;
        let mut unfit = Vec::new();
        for id in placement.nodes.keys() {
            let node = view.require::<Node>(id.as_str())?;
            unfit.extend((!constraints.allows_driver(node.driver_version.as_deref())).then_some(node.id));
        }
        let Some(free) = stock.get_mut(&placement.cluster).filter(|_| !unfit.is_empty()) else {
            return Ok(Ok(placement));
        };
        free.retain(|id, _| !unfit.contains(id));
    }
}
