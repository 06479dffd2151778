//! Checks that a tenant has an asset before an order for it is accepted, so that a mistyped name is rejected.

use super::{LeavingTenant, assets, ledger};
use crate::{
    destruction::{AssetId, AssetType},
    platform::{CallMetadata, Observer, Platform, SYSTEMS},
    tenancy::TenantId,
};
use engine::{Engine, Error, Undecided, nearest};
use std::{collections::BTreeSet, time::Duration};
use store::Epoch;

/// The timeout for each system to list a tenant's resources.
const WITHIN: Duration = Duration::from_secs(20);
/// The maximum number of similar names in the error.
const MOST_NEAREST: usize = 3;

/// The error for an asset that the tenant does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("asset: tenant {tenant} has no asset {asset}{}", like(nearest))]
pub struct UnknownAsset {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The given name.
    pub asset: AssetId,
    /// Assets with similar names, the most similar first.
    pub nearest: Vec<String>,
}

fn like(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(" or ")) }
}

/// Returns an error if the tenant certainly has no such asset: neither the records nor any system knows it.
///
/// If a system does not answer, or the tenant is not active, the asset may exist.
///
/// # Errors
/// The errors of the store.
pub async fn unknown_asset(
    engine: &Engine<Platform>,
    tenant: &TenantId,
    asset: &AssetId,
) -> Result<Option<UnknownAsset>, Error> {
    let leaver = engine.transact(false, |view| match ledger::check(view, tenant) {
        Ok(check) => Ok(Some(check.leaver)),
        Err(Undecided::Failed(_)) => Ok(None),
        Err(needs @ Undecided::Needs(_)) => Err(needs),
    });
    let Some(leaver) = leaver.await? else { return Ok(None) };
    let mut known = recorded(&leaver);
    if known.contains(asset.as_str()) || is_part_of_a_node(&leaver, asset) {
        return Ok(None);
    }
    for system in SYSTEMS {
        let stamp = listing(tenant);
        let platform = engine.platform();
        let seen = platform.tenant_resources.survey(system, tenant.as_str(), Observer::Platform, &stamp);
        let Ok(seen) = seen.await else { return Ok(None) };
        known.extend(seen.iter().map(|seen| id(&seen.thing)));
    }
    Ok((!known.contains(asset.as_str())).then(|| UnknownAsset {
        tenant: tenant.clone(),
        asset: asset.clone(),
        nearest: similar(asset, known),
    }))
}

fn id(thing: &crate::platform::TenantResource) -> String {
    AssetId::new(assets::kind_of(thing).0, &thing.to_string()).0
}

/// Returns the tenant's assets according to the records.
fn recorded(leaver: &LeavingTenant) -> BTreeSet<String> {
    let nodes = leaver
        .nodes
        .keys()
        .map(|node| AssetId::new(AssetType::Node, &format!("machines/{}/Node/{node}", leaver.cluster)).0);
    assets::expected(leaver).iter().map(id).chain(nodes).collect()
}

/// Returns true for a part of one of the tenant's nodes, such as a drive. Only the node itself knows its parts.
fn is_part_of_a_node(leaver: &LeavingTenant, asset: &AssetId) -> bool {
    let mut parts = asset.as_str().split('/');
    asset.as_str().contains(":machines/")
        && parts.any(|part| leaver.nodes.keys().any(|node| node.as_str() == part))
}

/// Returns the most similar names, the most similar first.
fn similar(asset: &AssetId, mut known: BTreeSet<String>) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < MOST_NEAREST
        && let Some(next) = nearest(asset.as_str(), known.iter().map(String::as_str))
    {
        known.remove(&next);
        all.push(next);
    }
    all
}

/// Returns the metadata of a read-only call.
fn listing(tenant: &TenantId) -> CallMetadata {
    CallMetadata {
        action: "ListAssets",
        step: format!("assets of {tenant}"),
        key: format!("assets of {tenant}"),
        epoch: Epoch(0),
        undo: false,
        deadline: WITHIN,
        dry_run: true,
    }
}
