//! Whether a tenant has an asset: asked before people order something of it, so that a mistyped name is not taken.

use super::{LeavingTenant, assets, ledger};
use crate::{
    destruction::{AssetId, AssetType},
    platform::{CallMetadata, Observer, Platform, SYSTEMS},
    tenancy::TenantId,
};
use engine::{Engine, Error, Undecided, nearest};
use std::{collections::BTreeSet, time::Duration};
use store::Epoch;

/// How long each system has to list what a tenant has.
const WITHIN: Duration = Duration::from_secs(20);
/// How many names like the one that was given are said.
const MOST_NEAREST: usize = 3;

/// That a tenant has no such asset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("asset: tenant {tenant} has no asset {asset}{}", like(nearest))]
pub struct UnknownAsset {
    /// Whose.
    pub tenant: TenantId,
    /// The name that was given.
    pub asset: AssetId,
    /// Assets of similar names, the most similar first.
    pub nearest: Vec<String>,
}

fn like(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(" or ")) }
}

/// Says whether the tenant surely has no such asset: neither our records nor any system knows it.
///
/// Where a system gives no answer, or the tenant is not in use, the asset may exist.
///
/// # Errors
/// The store's.
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

/// What our own records say that the tenant has.
fn recorded(leaver: &LeavingTenant) -> BTreeSet<String> {
    let nodes = leaver
        .nodes
        .keys()
        .map(|node| AssetId::new(AssetType::Node, &format!("machines/{}/Node/{node}", leaver.cluster)).0);
    assets::expected(leaver).iter().map(id).chain(nodes).collect()
}

/// Whether it is a part of a node of the tenant, such as a drive: only the node itself knows those.
fn is_part_of_a_node(leaver: &LeavingTenant, asset: &AssetId) -> bool {
    let mut parts = asset.as_str().split('/');
    asset.as_str().contains(":machines/")
        && parts.any(|part| leaver.nodes.keys().any(|node| node.as_str() == part))
}

/// The most similar names, the most similar first.
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

/// A call that changes nothing.
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
