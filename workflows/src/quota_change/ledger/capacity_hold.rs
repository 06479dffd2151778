//! Reserves, prepares and grants the capacity of a quota increase.

use crate::{
    ledger::{
        capacity_waitlist, codes,
        node_claim::{ClaimedNode, NodeClaim, changed, chosen, nodes, take},
        pool_index::PoolIndex,
        quotas,
    },
    placement::{Constraints, NodeRequest},
    quota_change::ledger::evaluate_change::{
        active, alone, keep, marks, ours, standing, unmarked, write_line,
    },
    scheduling::admission,
    tenancy::{
        AllocatedNode, Allowance, Earmark, Entitlement, NodeAllocation, NodeId, Quota, QuotaEnd, Resource,
        Tenant, TenantId, WorkspaceName, workspace_key,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Timestamp;

/// Reserves capacity for an increase: unassigned GPUs of the tenant, and claimed nodes for the rest.
///
/// Decided on the state at that time, because approved capacity may be gone. Safe to repeat: an execution has one earmark, which is filled up if its nodes were
/// unfit. Fails with `capacity.short` if too little is free. Its undo, [`ReleaseCapacity`], tolerates that nothing was reserved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldCapacity {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The allowance at the decision.
    pub before: Allowance,
    /// The allowance after the change.
    pub after: Allowance,
    /// The end of a temporary change.
    pub ends: Option<Timestamp>,
    /// The approved placement constraints.
    pub constraints: Constraints,
    /// True if more than the bought amount was approved.
    pub exception: bool,
    /// True if quotas may exceed the tenant's GPUs.
    pub overcommit: bool,
}

impl LedgerAction for HoldCapacity {
    const NAME: &'static str = "HoldCapacity";
    type Output = Option<NodeClaim>;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Option<NodeClaim>, Undecided> {
        let tenant = active(view, &self.tenant)?;
        let quota = standing(view, &self.tenant, &self.workspace, &self.resource, &self.before)?;
        if let Some(ends) = quota.ends.as_ref().filter(|ends| self.ends.is_some_and(|at| at != ends.at)) {
            let problem = format!("a temporary quota that ends at {} was granted meanwhile", ends.at.0);
            return Err(ActionError::permanent(codes::QUOTA_CHANGED, problem).into());
        }
        let mut marks = marks(view, &self.tenant)?;
        alone(&marks, &self.workspace, &self.resource, call)?;
        let amount = self.after.nominal.saturating_sub(self.before.nominal);
        let mut mark = marks.open.remove(&call.execution).unwrap_or(Earmark {
            workspace: self.workspace.clone(),
            resource: self.resource.clone(),
            amount,
            nodes: BTreeMap::new(),
            per_gpu: 1,
            replaced: None,
        });
        if amount == 0 {
            // A change of only the limits uses no capacity.
            let claim = claim_of(&tenant, &self.constraints, &mark.nodes);
            marks.open.insert(call.execution, mark);
            view.put(&marks)?;
            return Ok(claim);
        }
        let stand = quotas::gpu_holdings(view, &self.tenant, &tenant.workspaces, &self.resource)?;
        self.entitled(
            view,
            stand.nominal.saturating_add(marks.promised(&self.resource)).saturating_add(amount),
        )?;
        // The sum of all other earmarks, plus this one without its nodes.
        let mut others = stand;
        others.earmarked = marks.total(&self.resource);
        let lacking = others.lacking(amount.saturating_sub(mark.claimed()));
        let kind = self.resource.gpu().filter(|_| lacking > 0 && !self.overcommit);
        if let Some(kind) = kind {
            // Nodes are claimed whole. GPUs beyond the missing amount belong to the tenant and are not assigned.
            let offer = quotas::offer(view, &self.tenant, &kind.model)?;
            mark.per_gpu = offer.per_gpu;
            let ask = NodeRequest { model: kind.model.clone(), gpus: offer.gpus_for(lacking) };
            let placement = chosen(view, &ask, &self.constraints)?;
            mark.nodes.extend(take(view, &placement, &self.tenant, call)?);
            capacity_waitlist::leave(view, &self.constraints, &kind.model, call.execution)?;
        }
        let claim = claim_of(&tenant, &self.constraints, &mark.nodes);
        marks.open.insert(call.execution, mark);
        view.put(&marks)?;
        Ok(claim)
    }
}

impl HoldCapacity {
    /// Refuses more than the bought amount, unless it was approved.
    fn entitled(&self, view: &mut View, sum: u64) -> Result<(), Undecided> {
        if self.exception || self.resource.gpu().is_none() {
            return Ok(());
        }
        let bought = view.require::<Entitlement>(self.tenant.as_str())?.pieces();
        if sum <= bought {
            return Ok(());
        }
        let problem = format!("the workspaces of {} would have {sum} of {bought} purchased", self.tenant);
        Err(ActionError::permanent(codes::OVER_ENTITLEMENT, problem).into())
    }
}

/// Releases the capacity that an increase reserved. Nodes become free at once: no workload of the tenant ran on them before the grant, and `ReturnNode` has
/// removed the labels by then (as for [`ReleaseClaim`](crate::ledger::ReleaseClaim)). Safe to repeat, and tolerates that nothing was reserved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleaseCapacity {
    /// The tenant.
    pub tenant: TenantId,
}

impl LedgerAction for ReleaseCapacity {
    const NAME: &'static str = "ReleaseCapacity";
    type Output = Vec<NodeId>;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Vec<NodeId>, Undecided> {
        let mut marks = marks(view, &self.tenant)?;
        let Some(mark) = marks.open.remove(&call.execution) else { return Ok(Vec::new()) };
        let mut freed = Vec::new();
        for node in nodes(view, mark.nodes.keys())? {
            freed.push(node.unclaim(node.owner_epoch).map_err(changed)?);
        }
        PoolIndex::prefetch(view, &freed)?;
        let mut shelves = PoolIndex::default();
        for node in &freed {
            shelves.add_free(view, node)?;
            view.put(node)?;
        }
        shelves.save(view)?;
        keep(view, &marks)?;
        Ok(freed.into_iter().map(|node| node.id).collect())
    }
}

/// Marks the reserved nodes as being prepared. Safe to repeat; the undo is [`ReleaseCapacity`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrepareHeld {
    /// The tenant.
    pub tenant: TenantId,
}

impl LedgerAction for PrepareHeld {
    const NAME: &'static str = "PrepareHeld";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let (_, mark) = ours(view, &self.tenant, call)?;
        for node in nodes(view, mark.nodes.keys())? {
            view.put(&node.provision(node.owner_epoch).map_err(changed)?)?;
        }
        Ok(())
    }
}

/// Quarantines unfit nodes. They stay the tenant's until they are sanitised.
///
/// Safe to repeat. Has no undo: an unfit node does not become free when the increase is undone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuarantineHeld {
    /// The tenant.
    pub tenant: TenantId,
    /// The unfit nodes.
    pub unfit: Vec<NodeId>,
}

impl LedgerAction for QuarantineHeld {
    const NAME: &'static str = "QuarantineHeld";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let (mut marks, mut mark) = ours(view, &self.tenant, call)?;
        let mut holding = view.require::<NodeAllocation>(self.tenant.as_str())?;
        let unfit: Vec<_> =
            self.unfit.iter().filter(|node| mark.nodes.contains_key(*node)).cloned().collect();
        for node in nodes(view, unfit.iter())? {
            view.put(&node.quarantine(node.owner_epoch).map_err(changed)?)?;
            mark.nodes.remove(&node.id);
            holding.quarantined.insert(node.id);
        }
        view.put(&holding)?;
        marks.open.insert(call.execution, mark);
        view.put(&marks)
    }
}

/// Grants an increase: quota, account and nodes in service, in one commit. The reserved amount becomes the quota, so the sum that I-5 limits does not change.
///
/// Past the pivot, so it has no undo. Safe to repeat: it returns the same result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantQuota {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The allowance before.
    pub before: Allowance,
    /// The allowance after.
    pub after: Allowance,
    /// The end of a temporary change.
    pub ends: Option<Timestamp>,
}

impl LedgerAction for GrantQuota {
    const NAME: &'static str = "GrantQuota";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let mut quota = view.require::<Quota>(&workspace_key(&self.tenant, &self.workspace))?;
        let mut marks = marks(view, &self.tenant)?;
        let Some(mark) = marks.open.remove(&call.execution) else {
            if quota.set_by == call.execution && quota.allowances.get(&self.resource) == Some(&self.after) {
                return Ok(());
            }
            return Err(unmarked(&self.tenant));
        };
        serve(view, &self.tenant, &mark)?;
        quota.ends = self.end(quota.ends.take());
        write_line(view, quota, &self.resource, self.after, call)?;
        keep(view, &marks)
    }
}

impl GrantQuota {
    /// Returns the new end of the quota. A temporary increase ends with the previous allowance. A permanent one raises the allowance after an earlier temporary
    /// one.
    fn end(&self, ends: Option<QuotaEnd>) -> Option<QuotaEnd> {
        let more = self.after.nominal.saturating_sub(self.before.nominal);
        match (self.ends, ends) {
            (Some(at), ends) => {
                let mut then = ends.map(|ends| ends.then).unwrap_or_default();
                then.entry(self.resource.clone()).or_insert(self.before);
                Some(QuotaEnd { at, then })
            }
            (None, Some(mut ends)) => {
                if let Some(then) = ends.then.get_mut(&self.resource) {
                    then.nominal = then.nominal.saturating_add(more);
                    then.borrowing_limit = self.after.borrowing_limit;
                    then.lending_limit = self.after.lending_limit.map(|limit| limit.min(then.nominal));
                }
                Some(ends)
            }
            (None, None) => None,
        }
    }
}

/// Puts the nodes of an earmark into service.
fn serve(view: &mut View, tenant: &TenantId, mark: &Earmark) -> Result<(), Undecided> {
    if mark.nodes.is_empty() {
        return Ok(());
    }
    for node in nodes(view, mark.nodes.keys())? {
        view.put(&node.serve(node.owner_epoch).map_err(changed)?)?;
    }
    let mut holding = view.require::<NodeAllocation>(tenant.as_str())?;
    holding.nodes.extend(mark.nodes.clone());
    view.put(&holding)?;
    let nodes: Vec<_> = mark.nodes.keys().cloned().collect();
    admission::serve_nodes(view, tenant, &nodes)?;
    Ok(())
}

/// Returns the reserved nodes as a claim in the tenant's cluster; `None` without nodes.
fn claim_of(
    tenant: &Tenant,
    constraints: &Constraints,
    nodes: &BTreeMap<NodeId, AllocatedNode>,
) -> Option<NodeClaim> {
    let cluster = tenant.cluster.clone()?;
    let region = constraints.regions.iter().flatten().next().cloned()?;
    let node = |(id, held): (&NodeId, &AllocatedNode)| ClaimedNode {
        node: id.clone(),
        gpus: held.gpus,
        epoch: held.epoch,
    };
    (!nodes.is_empty()).then(|| NodeClaim { cluster, region, nodes: nodes.iter().map(node).collect() })
}
