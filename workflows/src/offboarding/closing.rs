//! The end: clean nodes are everybody's again, and the tenant's books are closed.

use crate::{
    destruction::{Asset, Inventory, SanitisationRecord, node_is_clean},
    ledger::{codes, pool_index::PoolIndex},
    offboarding::ledger::turn,
    scheduling::admission,
    tenancy::{
        Cluster, ClusterKey, Entitlement, Node, NodeAllocation, NodeError, NodeId, NodeState, Quota, Tenancy,
        Tenant, TenantId, TenantState, workspace_key,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Frees the nodes of which every asset has a record that passes (I-6); the others stay the tenant's.
///
/// Safe to decide again: what is free already is left alone. Nothing undoes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleaseNodes {
    /// Whose.
    pub tenant: TenantId,
    /// Which nodes, by what their sanitisation said.
    pub nodes: Vec<NodeId>,
}

impl LedgerAction for ReleaseNodes {
    const NAME: &'static str = "ReleaseNodes";
    type Output = Vec<NodeId>;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Vec<NodeId>, Undecided> {
        let Some(mut holding) = view.get::<NodeAllocation>(self.tenant.as_str())? else {
            return Ok(Vec::new());
        };
        let changed = |e: NodeError| ActionError::permanent(codes::NODE_STATE, e);
        let inventory = Inventory::read(view, &self.tenant, call.execution)?.unwrap_or_default();
        let parts = Parts::from_inventory(&inventory);
        view.prefetch::<Node>(self.nodes.iter().map(ToString::to_string))?;
        view.prefetch::<SanitisationRecord>(self.nodes.iter().flat_map(|node| parts.records(node, call)))?;
        let mut freed = Vec::new();
        for id in &self.nodes {
            let node = view.require::<Node>(id.as_str())?;
            if node.owner.as_ref() != Some(&self.tenant) || node.state != NodeState::Sanitizing {
                continue;
            }
            let clean = is_clean(view, &parts, id, call)?;
            if clean {
                let free = node.clear(node.owner_epoch).map_err(changed)?;
                freed.push(free.validate(free.owner_epoch).map_err(changed)?);
            }
        }
        PoolIndex::prefetch(view, &freed)?;
        let mut shelves = PoolIndex::default();
        for node in &freed {
            shelves.add_free(view, node)?;
            view.put(node)?;
            holding.nodes.remove(&node.id);
            holding.quarantined.remove(&node.id);
        }
        shelves.save(view)?;
        view.put(&holding)?;
        Ok(freed.into_iter().map(|node| node.id).collect())
    }
}

/// The assets of an inventory by their node.
struct Parts<'a>(BTreeMap<&'a str, Vec<&'a Asset>>);

impl<'a> Parts<'a> {
    fn from_inventory(inventory: &'a Inventory) -> Self {
        let mut parts: BTreeMap<&str, Vec<&Asset>> = BTreeMap::new();
        for asset in inventory.assets() {
            if let Some(node) = asset.node.as_deref() {
                parts.entry(node).or_default().push(asset);
            }
        }
        Self(parts)
    }

    fn of(&self, node: &NodeId) -> &[&'a Asset] {
        self.0.get(node.as_str()).map_or(&[], Vec::as_slice)
    }

    /// The ids of the records of this execution about the assets of a node.
    fn records(&self, node: &NodeId, call: &Call) -> impl Iterator<Item = String> {
        self.of(node).iter().map(|asset| SanitisationRecord::key(call.execution, &asset.id))
    }
}

/// Whether every asset of a node has a record of this execution that passes.
fn is_clean(view: &mut View, parts: &Parts<'_>, node: &NodeId, call: &Call) -> Result<bool, Undecided> {
    let assets = parts.of(node);
    let mut records = BTreeMap::new();
    for asset in assets {
        let record = view.get::<SanitisationRecord>(&SanitisationRecord::key(call.execution, &asset.id))?;
        records.extend(record.map(|record| (asset.id.clone(), record)));
    }
    let since = records.values().map(|record| record.started_at).min();
    Ok(since.is_some_and(|since| node_is_clean(assets.iter().copied(), &records, since).is_ok()))
}

/// Closes a tenant's books: its account, quotas, entitlement and key of its cluster end, and its name is a tombstone for ever.
///
/// Nodes that did not come out clean stay the tenant's. Safe to decide again. Nothing undoes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloseTenant {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for CloseTenant {
    const NAME: &'static str = "CloseTenant";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let tenant = view.require::<Tenant>(self.tenant.as_str())?;
        for workspace in &tenant.workspaces {
            view.delete::<Quota>(&workspace_key(&tenant.id, workspace))?;
        }
        view.delete::<Entitlement>(tenant.id.as_str())?;
        admission::close_account(view, &tenant.id)?;
        if let Some(holding) = view.get::<NodeAllocation>(tenant.id.as_str())? {
            let kept: BTreeSet<NodeId> = holding.nodes.keys().chain(&holding.quarantined).cloned().collect();
            if kept.is_empty() {
                view.delete::<NodeAllocation>(tenant.id.as_str())?;
                vacate(view, &tenant)?;
            } else {
                view.prefetch::<Node>(kept.iter().map(ToString::to_string))?;
                for id in &kept {
                    let node = view.require::<Node>(id.as_str())?;
                    // One that is lost or being worked on stays so, and its tenant's as well.
                    if let Ok(apart) = node.quarantine(node.owner_epoch) {
                        view.put(&apart)?;
                    }
                }
                view.put(&NodeAllocation { nodes: BTreeMap::new(), quarantined: kept, ..holding })?;
            }
        }
        if let Some(cluster) = &tenant.cluster {
            let key = view.get::<ClusterKey>(cluster.as_str())?;
            let ours = |key: &ClusterKey| key.tenant.as_ref() == Some(&tenant.id) && key.revoked_at.is_none();
            if let Some(key) = key.filter(ours) {
                let key = key.into_revoked(view.now(), None, None);
                view.put(&key)?;
            }
        }
        let closed_at = Some(tenant.closed_at.unwrap_or(view.now()));
        let closed = turn(tenant, &[TenantState::Destroying, TenantState::Closed], TenantState::Closed)?;
        view.put(&Tenant { closed_at, ..closed })
    }
}

fn vacate(view: &mut View, tenant: &Tenant) -> Result<(), Undecided> {
    let Some(id) = &tenant.cluster else { return Ok(()) };
    let cluster = view.require::<Cluster>(id.as_str())?;
    if cluster.tenancy == (Tenancy::Dedicated { tenant: Some(tenant.id.clone()) }) {
        view.put(&Cluster { tenancy: Tenancy::Dedicated { tenant: None }, ..cluster })?;
    }
    Ok(())
}
