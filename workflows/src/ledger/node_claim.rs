//! Claims and releases nodes, all or none.

use crate::{
    ledger::{candidates, capacity_waitlist, codes, pool_index::PoolIndex},
    placement::{Constraints, NodeRequest, Placement},
    tenancy::{
        AllocatedNode, Cluster, ClusterClasses, ClusterId, Gpus, Node, NodeAllocation, NodeError, NodeId,
        OwnerEpoch, RegionId, Tenancy, Tenant, TenantId,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};

/// A node of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedNode {
    /// The node's name.
    pub node: NodeId,
    /// Its GPUs.
    pub gpus: Gpus,
    /// The node's epoch since the claim.
    pub epoch: OwnerEpoch,
}

/// Result of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClaim {
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The region's name.
    pub region: RegionId,
    /// The nodes.
    pub nodes: Vec<ClaimedNode>,
}

/// Claims free nodes for a tenant, all or none. The epoch of each node increases by one.
///
/// Safe to decide again: the same execution gets the same claim. Fails with `capacity.short` if there is not enough free capacity. Its undo,
/// [`ReleaseClaim`], tolerates that nothing was claimed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimNodes {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The requested nodes.
    pub ask: NodeRequest,
    /// The approved constraints.
    pub constraints: Constraints,
}

impl LedgerAction for ClaimNodes {
    const NAME: &'static str = "ClaimNodes";
    type Output = NodeClaim;

    fn decide(&self, view: &mut View, call: &Call) -> Result<NodeClaim, Undecided> {
        if let Some(holding) = view.get::<NodeAllocation>(self.tenant.as_str())? {
            if holding.claimed_by == call.execution {
                return Ok(claim_of(&holding));
            }
            let problem = format!("tenant {} holds nodes claimed by {}", self.tenant, holding.claimed_by);
            return Err(ActionError::permanent(codes::CLAIM_EXISTS, problem).into());
        }
        let placement = chosen(view, &self.ask, &self.constraints)?;
        let nodes = take(view, &placement, &self.tenant, call)?;
        let holding = NodeAllocation {
            tenant: self.tenant.clone(),
            claimed_by: call.execution,
            cluster: placement.cluster.clone(),
            region: placement.region.clone(),
            model: self.ask.model.clone(),
            nodes: nodes.into_iter().collect(),
            quarantined: std::collections::BTreeSet::new(),
        };
        view.put(&holding)?;
        occupy(view, &placement.cluster, &self.tenant)?;
        ClusterClasses::record(view, &placement.cluster, &self.tenant)?;
        if let Some(tenant) = view.get::<Tenant>(self.tenant.as_str())? {
            view.put(&Tenant { cluster: Some(placement.cluster), ..tenant })?;
        }
        capacity_waitlist::leave(view, &self.constraints, &self.ask.model, call.execution)?;
        Ok(claim_of(&holding))
    }
}

/// Releases the claim of an execution whose tenant never used it.
///
/// The nodes become free without being sanitised, even labelled ones. No work of the tenant can have run on them: its queues are on hold and its
/// credentials unpublished until the hand-over, after which there is no undo. The last sanitisation of a node is therefore still later than its last
/// service (I-6). `ReturnNode` has already removed the labels, because the engine undoes states in reverse order and stops at a failed undo. Nodes in
/// service or quarantine are not freed here: only a sanitisation frees them (I-10).
///
/// Safe to run twice. Tolerates that nothing was claimed, or that another execution claimed it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleaseClaim {
    /// The tenant's id.
    pub tenant: TenantId,
}

/// Result of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimReleased {
    /// Free nodes.
    pub freed: Vec<NodeId>,
    /// Nodes that stay with the tenant until they are sanitised.
    pub kept: Vec<NodeId>,
}

impl LedgerAction for ReleaseClaim {
    const NAME: &'static str = "ReleaseClaim";
    type Output = ClaimReleased;

    fn decide(&self, view: &mut View, call: &Call) -> Result<ClaimReleased, Undecided> {
        let holding = view.get::<NodeAllocation>(self.tenant.as_str())?;
        let Some(holding) = holding.filter(|holding| holding.claimed_by == call.execution) else {
            return Ok(ClaimReleased::default());
        };
        let nodes = nodes(view, holding.nodes.keys())?;
        let mut freed = Vec::new();
        for node in nodes {
            freed.push(node.unclaim(node.owner_epoch).map_err(changed)?);
        }
        PoolIndex::prefetch(view, &freed)?;
        let mut shelves = PoolIndex::default();
        for node in &freed {
            shelves.add_free(view, node)?;
            view.put(node)?;
        }
        shelves.save(view)?;
        if holding.quarantined.is_empty() {
            vacate(view, &holding.cluster, &self.tenant)?;
        }
        ClusterClasses::remove(view, &holding.cluster, &self.tenant)?;
        view.delete::<NodeAllocation>(self.tenant.as_str())?;
        let freed = freed.into_iter().map(|node| node.id).collect();
        Ok(ClaimReleased { freed, kept: holding.quarantined.into_iter().collect() })
    }
}

/// Marks claimed nodes as being prepared. Safe to run twice. [`ReleaseClaim`] is its undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrepareNodes {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for PrepareNodes {
    const NAME: &'static str = "PrepareNodes";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let holding = held(view, &self.tenant, call)?;
        for node in nodes(view, holding.nodes.keys())? {
            view.put(&node.provision(node.owner_epoch).map_err(changed)?)?;
        }
        Ok(())
    }
}

/// Returns the chosen nodes, or the failure with the reason.
pub(crate) fn chosen(
    view: &mut View,
    ask: &NodeRequest,
    constraints: &Constraints,
) -> Result<Placement, Undecided> {
    let mut candidates = candidates::candidates(view, &ask.model)?;
    if !constraints.apart.is_empty() {
        candidates::add_classes(view, &mut candidates, &constraints.tenant)?;
    }
    let placement = candidates::choose(view, &candidates, ask, constraints)?;
    Ok(placement.map_err(|short| {
        let by_cluster: Vec<_> =
            short.by_cluster.iter().map(|(cluster, free)| format!("{cluster} {free}")).collect();
        let problem = format!(
            "{} GPUs of model {} are requested in one cluster, but only {} are available ({})",
            short.asked,
            short.model,
            short.free,
            by_cluster.join(", ")
        );
        ActionError::permanent(codes::SHORT, problem)
    })?)
}

/// Assigns the placed nodes to the tenant.
pub(crate) fn take(
    view: &mut View,
    placement: &Placement,
    tenant: &TenantId,
    call: &Call,
) -> Result<Vec<(NodeId, AllocatedNode)>, Undecided> {
    let free = nodes(view, placement.nodes.keys())?;
    PoolIndex::prefetch(view, &free)?;
    let mut shelves = PoolIndex::default();
    let mut taken = Vec::new();
    for node in free {
        let claimed = node.claim(tenant, call.execution, node.owner_epoch).map_err(changed)?;
        shelves.remove_free(view, &node)?;
        view.put(&claimed)?;
        taken.push((claimed.id, AllocatedNode { gpus: claimed.gpu.count, epoch: claimed.owner_epoch }));
    }
    shelves.save(view)?;
    Ok(taken)
}

/// Returns the tenant's nodes that this execution claimed.
pub(crate) fn held(view: &mut View, tenant: &TenantId, call: &Call) -> Result<NodeAllocation, Undecided> {
    let holding =
        view.get::<NodeAllocation>(tenant.as_str())?.filter(|holding| holding.claimed_by == call.execution);
    let missing = || {
        ActionError::permanent(codes::CLAIM_MISSING, format!("tenant {tenant} holds no nodes of this claim"))
    };
    Ok(holding.ok_or_else(missing)?)
}

pub(crate) fn nodes<'a>(
    view: &mut View,
    ids: impl Iterator<Item = &'a NodeId> + Clone,
) -> Result<Vec<Node>, Undecided> {
    view.prefetch::<Node>(ids.clone().map(ToString::to_string))?;
    ids.map(|id| view.require::<Node>(id.as_str())).collect()
}

pub(crate) fn changed(error: NodeError) -> Undecided {
    ActionError::permanent(codes::NODE_STATE, error).into()
}

pub(crate) fn claim_of(holding: &NodeAllocation) -> NodeClaim {
    let node = |(id, held): (&NodeId, &AllocatedNode)| ClaimedNode {
        node: id.clone(),
        gpus: held.gpus,
        epoch: held.epoch,
    };
    let (cluster, region) = (holding.cluster.clone(), holding.region.clone());
    NodeClaim { cluster, region, nodes: holding.nodes.iter().map(node).collect() }
}

fn occupy(view: &mut View, cluster: &ClusterId, tenant: &TenantId) -> Result<(), Undecided> {
    let cluster = view.require::<Cluster>(cluster.as_str())?;
    match cluster.tenancy {
        Tenancy::Shared => Ok(()),
        Tenancy::Dedicated { .. } => {
            view.put(&Cluster { tenancy: Tenancy::Dedicated { tenant: Some(tenant.clone()) }, ..cluster })
        }
    }
}

fn vacate(view: &mut View, cluster: &ClusterId, tenant: &TenantId) -> Result<(), Undecided> {
    let cluster = view.require::<Cluster>(cluster.as_str())?;
    if cluster.tenancy == (Tenancy::Dedicated { tenant: Some(tenant.clone()) }) {
        view.put(&Cluster { tenancy: Tenancy::Dedicated { tenant: None }, ..cluster })?;
    }
    Ok(())
}
