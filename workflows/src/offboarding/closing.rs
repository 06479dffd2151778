//! The end of an offboarding: frees clean nodes and closes the tenant in the ledger.

use crate::{
    destruction::{Asset, Inventory, SanitisationRecord, node_is_clean},
    ledger::{codes, pool_index::PoolIndex},
    offboarding::ledger::turn,
    scheduling::admission,
    tenancy::{
        Cluster, ClusterClasses, ClusterKey, Entitlement, Node, NodeAllocation, NodeError, NodeId, NodeState,
        NodeUse, Occupancy, Quota, Tenancy, Tenant, TenantId, TenantState, workspace_key,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Frees the nodes whose assets all have a passing record (I-6). The other nodes stay with the tenant.
///
/// Safe to decide again: free nodes are left unchanged. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleaseNodes {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The nodes that are clean according to their sanitisation.
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

/// The assets of an inventory, by node.
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

    /// Returns the ids of this execution's records for the assets of a node.
    fn records(&self, node: &NodeId, call: &Call) -> impl Iterator<Item = String> {
        self.of(node).iter().map(|asset| SanitisationRecord::key(call.execution, &asset.id))
    }
}

/// Returns true if every asset of a node has a passing record of this execution.
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

/// Closes a tenant in the ledger: ends its account, quotas, entitlement and the key of its cluster, and reserves its name permanently.
///
/// Nodes that are not clean stay with the tenant. Safe to decide again. It has no undo.
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
                    // A node that is lost or under repair keeps its state, and stays with the tenant.
                    if let Ok(apart) = node.quarantine(node.owner_epoch) {
                        view.put(&apart)?;
                    }
                }
                view.put(&NodeAllocation { nodes: BTreeMap::new(), quarantined: kept, ..holding })?;
            }
        }
        if let Some(cluster) = &tenant.cluster {
            ClusterClasses::remove(view, cluster, &tenant.id)?;
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

/// Returns the tenant's nodes that are out of service and run no workload. They have no room in its occupancy.
pub(super) fn resting_nodes(
    view: &mut View,
    tenant: &TenantId,
    occupancy: &Occupancy,
) -> Result<Vec<NodeId>, Undecided> {
    let Some(held) = view.get::<NodeAllocation>(tenant.as_str())? else { return Ok(Vec::new()) };
    let all = held.nodes.into_keys().chain(held.quarantined);
    let mut resting: Vec<NodeId> = all.filter(|id| !occupancy.nodes.contains_key(id)).collect();
    view.prefetch::<NodeUse>(resting.iter().map(ToString::to_string))?;
    let mut idle = BTreeSet::new();
    for id in &resting {
        let there = view.get::<NodeUse>(id.as_str())?.filter(|there| there.tenant == *tenant);
        idle.extend(there.filter(|there| there.workloads().is_empty()).map(|there| there.node));
    }
    resting.retain(|id| idle.contains(id));
    Ok(resting)
}
