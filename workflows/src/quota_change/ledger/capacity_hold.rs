//! What an increase of a quota sets aside, makes ready, and grants.

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

/// Sets capacity aside for an increase: what the tenant owns and has not given out, and nodes claimed for the rest.
///
/// Decided on what stands at that moment, since what was approved may have gone meanwhile. Safe to decide again: the same
/// execution has one earmark, which is filled up where nodes of it proved unfit. Fails with `capacity.short` when too
/// little is free. Its undo, [`ReleaseCapacity`], tolerates that nothing was set aside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldCapacity {
    /// Whose.
    pub tenant: TenantId,
    /// For which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub resource: Resource,
    /// What was in force when it was decided.
    pub before: Allowance,
    /// What will be.
    pub after: Allowance,
    /// When it ends by itself.
    pub ends: Option<Timestamp>,
    /// Within what was approved.
    pub constraints: Constraints,
    /// Whether people agreed to more than was bought.
    pub exception: bool,
    /// Whether quotas may exceed what the tenant owns.
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
            // Limits alone take nothing of what there is.
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
        // The sum of the earmarks as the others leave it, and ours without the nodes that it has.
        let mut others = stand;
        others.earmarked = marks.total(&self.resource);
        let lacking = others.lacking(amount.saturating_sub(mark.claimed()));
        let kind = self.resource.gpu().filter(|_| lacking > 0 && !self.overcommit);
        if let Some(kind) = kind {
            // A node is whole: what it has beyond the lack is the tenant's, and not given out.
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
    /// Refuses more than was bought, unless people agreed to that.
    fn entitled(&self, view: &mut View, sum: u64) -> Result<(), Undecided> {
        if self.exception || self.resource.gpu().is_none() {
            return Ok(());
        }
        let bought = view.require::<Entitlement>(self.tenant.as_str())?.pieces();
        if sum <= bought {
            return Ok(());
        }
        let problem = format!("the workspaces of {} would have {sum} of the {bought} bought", self.tenant);
        Err(ActionError::permanent(codes::OVER_ENTITLEMENT, problem).into())
    }
}

/// Gives up what an increase has set aside. Nodes go straight back to what is free: nothing of the tenant can have run on
/// them before they were granted, and `ReturnNode` has taken the labels off by then (as for
/// [`ReleaseClaim`](crate::ledger::ReleaseClaim)). Safe to run twice, and tolerates that nothing was set aside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleaseCapacity {
    /// Whose.
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

/// Marks the nodes set aside as being made ready. Safe to run twice; [`ReleaseCapacity`] covers it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrepareHeld {
    /// Whose.
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

/// Keeps unfit nodes apart; they stay the tenant's until they are sanitised.
///
/// Safe to run twice. Not undone: a node that proved unfit is not free again because the increase was given up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuarantineHeld {
    /// Whose.
    pub tenant: TenantId,
    /// Which ones.
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

/// Grants an increase: quota and account, and the nodes at the tenant's service, in one commit. What was set aside is in
/// force from here, so the sum that I-5 bounds does not change.
///
/// Past the point of no return, so it is not undone. Safe to decide again: it answers as before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantQuota {
    /// Whose.
    pub tenant: TenantId,
    /// For which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub resource: Resource,
    /// What was in force.
    pub before: Allowance,
    /// What is in force from here.
    pub after: Allowance,
    /// When it ends by itself.
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
    /// What ends when: a temporary increase goes back to what was in force before; a lasting one lifts what an earlier
    /// temporary one goes back to.
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

/// Puts the nodes of an earmark in service, among the tenant's others.
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

/// The nodes set aside, as a claim of the tenant's cluster; `None` when there are none.
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
