//! Applies regions and clusters to the ledger in one decision: the whole file or nothing.

use super::sites::{ClusterRow, RegionRow, SiteReport, Sites, regions_of};
use crate::tenancy::{Cluster, Region, RegionIndex, Tenancy};
use engine::{ActionError, Undecided, View};

/// Imports regions and clusters. The region of a cluster must be in the file or exist.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `fleet.region_unknown`, `fleet.cluster_in_use` if a cluster with claimed nodes would
/// change its region, kind, tenancy or backend, `fleet.region_in_use` if a region with clusters would change its jurisdiction.
pub fn import_sites(view: &mut View, sites: &Sites) -> Result<SiteReport, Undecided> {
    let mut report = SiteReport::default();
    for row in &sites.regions {
        let old = view.get::<Region>(row.id.as_str())?;
        let name = format!("region {}", row.id);
        let same = |old: &Region| old.jurisdiction == row.jurisdiction && old.buffer == row.buffer;
        if old.as_ref().is_some_and(|old| !old.clusters.is_empty() && old.jurisdiction != row.jurisdiction) {
            let problem = format!("region {name} has clusters, so its jurisdiction cannot change");
            return Err(ActionError::permanent("fleet.region_in_use", problem).into());
        }
        note(&mut report, name, old.as_ref().map(same));
        keep_region(view, row)?;
    }
    for region in regions_of(sites) {
        if view.get::<Region>(region.as_str())?.is_none() {
            let problem = format!("region {region} is unknown; add it under `regions`");
            return Err(ActionError::permanent("fleet.region_unknown", problem).into());
        }
    }
    for row in &sites.clusters {
        let old = view.get::<Cluster>(row.id.as_str())?;
        let new = made(row, old.as_ref());
        let name = format!("cluster {}", row.id);
        if let Some(old) = old.as_ref().filter(|old| **old != new && !old.models.is_empty()) {
            let moved = old.region != new.region || old.kind != new.kind || old.tenancy != new.tenancy;
            if moved || old.backend != new.backend {
                let problem = format!(
                    "cluster {name} has nodes, so its region, kind, tenancy and backend cannot change"
                );
                return Err(ActionError::permanent("fleet.cluster_in_use", problem).into());
            }
        }
        note(&mut report, name, old.as_ref().map(|old| *old == new));
        if let Some(old) = old.filter(|old| old.region != new.region) {
            let region = view.require::<Region>(old.region.as_str())?;
            let clusters = region.clusters.iter().filter(|id| **id != old.id).cloned().collect();
            view.put(&Region { clusters, ..region })?;
        }
        report.simulated.extend(new.is_simulated().then(|| new.id.clone()));
        join(view, row)?;
        keep(view, &new)?;
    }
    Ok(report)
}

fn note(report: &mut SiteReport, name: String, same: Option<bool>) {
    match same {
        None => report.added.push(name),
        Some(true) => report.unchanged.push(name),
        Some(false) => report.changed.push(name),
    }
}

/// Returns the cluster of a row. Facts of the existing cluster that the row does not have stay.
pub(super) fn made(row: &ClusterRow, old: Option<&Cluster>) -> Cluster {
    let kept =
        old.map(|old| old.tenancy.clone()).filter(|tenancy| matches!(tenancy, Tenancy::Dedicated { .. }));
    let dedicated = || kept.unwrap_or(Tenancy::Dedicated { tenant: None });
    Cluster {
        id: row.id.clone(),
        region: row.region.clone(),
        provider: row.provider.clone(),
        kind: row.kind,
        tenancy: if row.dedicated { dedicated() } else { Tenancy::Shared },
        backend: row.backend.clone(),
        models: old.map(|old| old.models.clone()).unwrap_or_default(),
        unready: old.map(|old| old.unready.clone()).unwrap_or_default(),
    }
}

/// Writes a cluster if it has changed.
pub(super) fn keep(view: &mut View, cluster: &Cluster) -> Result<(), Undecided> {
    if view.get::<Cluster>(cluster.id.as_str())?.as_ref() == Some(cluster) {
        return Ok(());
    }
    view.put(cluster)
}

/// Writes and lists a region if it has changed.
pub(super) fn keep_region(view: &mut View, row: &RegionRow) -> Result<(), Undecided> {
    let old = view.get::<Region>(row.id.as_str())?;
    let clusters = old.as_ref().map(|old| old.clusters.clone()).unwrap_or_default();
    let (id, jurisdiction, buffer) = (row.id.clone(), row.jurisdiction.clone(), row.buffer.clone());
    let new = Region { id, jurisdiction, buffer, clusters };
    if old.as_ref() != Some(&new) {
        view.put(&new)?;
    }
    let mut atlas = view.get::<RegionIndex>(RegionIndex::ID)?.unwrap_or_default();
    if atlas.regions.insert(row.id.clone()) {
        view.put(&atlas)?;
    }
    Ok(())
}

/// Lists a cluster in its region.
pub(super) fn join(view: &mut View, row: &ClusterRow) -> Result<(), Undecided> {
    let mut region = view.require::<Region>(row.region.as_str())?;
    if region.clusters.insert(row.id.clone()) {
        view.put(&region)?;
    }
    Ok(())
}
