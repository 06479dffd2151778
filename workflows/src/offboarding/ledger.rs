//! The ledger actions of an offboarding up to the point of no return.

pub(super) mod remaining;

use super::{LeavingTenant, OffboardingTerms, RemainingAssets};
use crate::{
    destruction::{HoldScope, PassPivot, Pivot, codes as destruction_codes, holds_of},
    ledger::{codes, thaw},
    offboarding::closing::resting_nodes,
    policy::{
        self, ApprovalGate, GuardMode, Medium,
        decisions::{ApprovalFor, GuardedAction, approval, blocked},
    },
    scheduling::admission::{self, EndedWork},
    signing::Digest,
    tenancy::{
        AccountState, Cluster, ClusterKey, Cohort, Earmarks, KeyScope as Allowed, Node, NodeAllocation,
        NodeId, Occupancy, RunningList, Tenant, TenantId, TenantState, Tier, WorkspaceName,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use remaining::check_remaining;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Checks that a tenant may leave: it is active and no hold prevents it. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckLeaving {
    /// The tenant's id.
    pub tenant: TenantId,
    /// True for a closed tenant, for the offboarding of its remains.
    #[serde(default)]
    pub remaining: bool,
}

/// Result of the check: the tenant and the terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeavingCheck {
    /// The leaving tenant.
    pub leaver: LeavingTenant,
    /// The terms of the offboarding.
    pub terms: OffboardingTerms,
    /// For a closed tenant: its remains.
    #[serde(default)]
    pub remaining: Option<RemainingAssets>,
}

impl LedgerAction for CheckLeaving {
    const NAME: &'static str = "CheckLeaving";
    type Output = LeavingCheck;

    fn decide(&self, view: &mut View, _: &Call) -> Result<LeavingCheck, Undecided> {
        let check: fn(&mut View, &TenantId) -> _ = if self.remaining { check_remaining } else { check };
        let checked = check(view, &self.tenant)?;
        unheld_to_begin(view, &self.tenant)?;
        out_of_use(view, &self.tenant, &checked.leaver.workspaces)?;
        if view.require::<Tenant>(self.tenant.as_str())?.state == TenantState::Active {
            undisturbed(view, &self.tenant)?;
        }
        Ok(checked)
    }
}

/// Fails while another execution changes the tenant, because its undo could restore or open a part of the tenant after its end.
///
/// # Errors
/// `tenant.changing` with the changes, or a read error of the view.
fn undisturbed(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let others = disturbing(view, tenant)?;
    if others.is_empty() {
        return Ok(());
    }
    let why = format!("tenant {tenant} is being changed: {}", others.join("; "));
    Err(ActionError::permanent(codes::TENANT_CHANGING, why).into())
}

/// Returns one sentence for each other change of the tenant.
///
/// # Errors
/// The read errors of the view.
pub(super) fn disturbing(view: &mut View, tenant: &TenantId) -> Result<Vec<String>, Undecided> {
    let open = view.get::<Earmarks>(tenant.as_str())?.map(|marks| marks.open).unwrap_or_default();
    let mut others = Vec::new();
    if !open.is_empty() {
        others.push(format!("{} quota changes are in progress", open.len()));
    }
    let frozen = view.get::<Cohort>(tenant.as_str())?.map(|cohort| cohort.accounts).unwrap_or_default();
    for (workspace, account) in frozen {
        if let AccountState::Frozen { by } = account.admitting {
            others.push(format!("workspace {workspace} is frozen by execution {by}"));
        }
    }
    Ok(others)
}

/// Returns the number of running workloads of the tenant.
fn running(view: &mut View, tenant: &TenantId, workspaces: &[WorkspaceName]) -> Result<u32, Undecided> {
    let keys: Vec<String> = workspaces.iter().flat_map(|name| RunningList::keys(tenant, name)).collect();
    view.prefetch::<RunningList>(keys.iter().cloned())?;
    let mut count = 0_usize;
    for key in keys {
        count = count.saturating_add(view.get::<RunningList>(&key)?.map_or(0, |list| list.running.len()));
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Fails while workloads of the tenant run and policy does not permit an end of the tenant then. If policy leaves the decision to approvers, every
/// offboarding has an approval anyway.
///
/// # Errors
/// `tenant.in_use`, or a read error of the view.
fn out_of_use(view: &mut View, tenant: &TenantId, workspaces: &[WorkspaceName]) -> Result<(), Undecided> {
    match blocked_by_use(view, tenant, workspaces)? {
        None => Ok(()),
        Some(why) => Err(ActionError::permanent(codes::TENANT_IN_USE, why).into()),
    }
}

/// Returns the reason why policy does not permit an end of the tenant while its workloads run. `None` if none runs, or if approvers decide.
pub(super) fn blocked_by_use(
    view: &mut View,
    tenant: &TenantId,
    workspaces: &[WorkspaceName],
) -> Result<Option<String>, Undecided> {
    let policy = policy::in_force(view)?;
    let deed = GuardedAction::EndTenant { running: running(view, tenant, workspaces)? };
    let stop = blocked(&deed, &policy).filter(|stop| stop.mode == GuardMode::Block);
    Ok(stop.map(|stop| {
        let by = stop.reason.by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
        format!("tenant {tenant} is in use: {}{by}", stop.reason.detail)
    }))
}

/// Fails if a hold prevents the start. If policy permits the removal of data outside a hold (`offboarding.partial_ok`), only a hold on the whole
/// tenant prevents it. [`RecheckHolds`] and [`BeginDestroying`] still require that there is no hold at all.
fn unheld_to_begin(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let policy = policy::in_force(view)?;
    let holds = holds_of(view, tenant)?;
    if holds.covering(&HoldScope::Tenant).any(|hold| delays(&hold.scope, &policy)) {
        return unheld(view, tenant);
    }
    Ok(())
}

/// Returns true if a hold prevents the start of an offboarding.
pub(crate) fn delays(hold: &HoldScope, policy: &policy::PlatformPolicy) -> bool {
    *hold == HoldScope::Tenant || !policy.offboarding.partial_ok
}

/// Fails while any hold on the tenant is in force.
///
/// # Errors
/// `hold.in_force` with the holds, or a read error of the view.
pub(super) fn unheld(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let holds = holds_of(view, tenant)?;
    let keeping: Vec<_> =
        holds.covering(&HoldScope::Tenant).map(|hold| format!("{} ({})", hold.id, hold.reason)).collect();
    if keeping.is_empty() {
        return Ok(());
    }
    let why = format!("tenant {tenant} is under hold: {}", keeping.join(", "));
    Err(ActionError::permanent(destruction_codes::HELD, why).into())
}

/// Returns the data of a leaving tenant from the ledger.
///
/// # Errors
/// `tenant.not_active` if the tenant is not active, or a read error of the view.
pub(super) fn check(view: &mut View, id: &TenantId) -> Result<LeavingCheck, Undecided> {
    let refused = |why: String| ActionError::permanent(codes::TENANT_NOT_ACTIVE, why);
    let Some(tenant) = view.get::<Tenant>(id.as_str())? else {
        return Err(refused(format!("tenant {id} does not exist")).into());
    };
    match tenant.state {
        TenantState::Active | TenantState::Leaving => {}
        TenantState::Onboarding => return Err(refused(format!("tenant {id} is being onboarded")).into()),
        TenantState::Destroying => return Err(refused(format!("tenant {id} is being destroyed")).into()),
        TenantState::Closed => return Err(refused(format!("tenant {id} is closed permanently")).into()),
    }
    let Some(holding) = view.get::<NodeAllocation>(id.as_str())? else {
        return Err(refused(format!("tenant {id} has no record of its nodes")).into());
    };
    let cluster = view.require::<Cluster>(holding.cluster.as_str())?;
    let ids: BTreeSet<NodeId> = holding.nodes.keys().chain(&holding.quarantined).cloned().collect();
    view.prefetch::<Node>(ids.iter().map(ToString::to_string))?;
    let mut nodes = BTreeMap::new();
    for id in ids {
        let node = view.require::<Node>(id.as_str())?;
        nodes.insert(id, (node.owner_epoch, u64::from(node.gpu.count.0)));
    }
    let policy = policy::in_force(view)?;
    let terms = OffboardingTerms::from_policy(&policy, tenant.tier);
    let leaver = LeavingTenant {
        tenant: id.clone(),
        cluster: holding.cluster,
        region: holding.region,
        kind: cluster.kind,
        model: holding.model,
        workspaces: tenant.workspaces,
        nodes,
        onboarded_by: tenant.onboarded_by,
        onboarded_at: tenant.created_at.into(),
        compliance: tenant.compliance,
        simulated: cluster.is_simulated(),
    };
    Ok(LeavingCheck { leaver, terms, remaining: None })
}

/// Marks a tenant as leaving: freezes its accounts, rejects new work, and restricts the key of its cluster to reports.
///
/// Safe to decide again. [`StayOn`] is the undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginLeaving {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for BeginLeaving {
    const NAME: &'static str = "BeginLeaving";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let tenant = view.require::<Tenant>(self.tenant.as_str())?;
        // The remains of a closed tenant have no work to stop.
        if tenant.state == TenantState::Closed {
            return Ok(());
        }
        out_of_use(view, &self.tenant, &tenant.workspaces)?;
        if tenant.state == TenantState::Active {
            undisturbed(view, &self.tenant)?;
        }
        // Includes accounts that an earlier, forcibly ended offboarding froze.
        admission::freeze_all(view, &self.tenant, call.execution)?;
        allow(view, &tenant, vec![Allowed::PushFacts])?;
        view.put(&turn(tenant, &[TenantState::Active, TenantState::Leaving], TenantState::Leaving)?)
    }
}

/// Undoes [`BeginLeaving`]. Safe to run twice. Tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StayOn {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for StayOn {
    const NAME: &'static str = "StayOn";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let tenant = view.require::<Tenant>(self.tenant.as_str())?;
        if tenant.state != TenantState::Leaving {
            return Ok(());
        }
        allow(view, &tenant, vec![Allowed::PushFacts, Allowed::PullCommands])?;
        view.put(&turn(tenant, &[TenantState::Leaving], TenantState::Active)?)?;
        thaw(view, &self.tenant, call)
    }
}

/// Sets the permissions of the key of the tenant's own cluster, if it has one.
fn allow(view: &mut View, tenant: &Tenant, scopes: Vec<Allowed>) -> Result<(), Undecided> {
    let Some(cluster) = &tenant.cluster else { return Ok(()) };
    let key = view.get::<ClusterKey>(cluster.as_str())?;
    match key.filter(|key| key.tenant.as_ref() == Some(&tenant.id) && key.revoked_at.is_none()) {
        Some(key) => view.put(&ClusterKey { scopes, ..key }),
        None => Ok(()),
    }
}

pub(super) fn turn(tenant: Tenant, from: &[TenantState], to: TenantState) -> Result<Tenant, Undecided> {
    if !from.contains(&tenant.state) {
        let (is, wanted): (&str, &str) = (tenant.state.into(), to.into());
        let why = format!("tenant {} is {is}, and cannot become {wanted}", tenant.id);
        return Err(ActionError::permanent(codes::TENANT_NOT_ACTIVE, why).into());
    }
    Ok(Tenant { state: to, ..tenant })
}

/// Checks that no hold on the tenant is in force. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecheckHolds {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for RecheckHolds {
    const NAME: &'static str = "RecheckHolds";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        unheld(view, &self.tenant)
    }
}

/// Ends the tenant's workloads in the ledger, a part at a time, after its platform was observed to run none. They do not come back. Safe to decide
/// again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndWork {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for EndWork {
    const NAME: &'static str = "EndWork";
    type Output = EndedWork;

    fn decide(&self, view: &mut View, _: &Call) -> Result<EndedWork, Undecided> {
        admission::end_work(view, &self.tenant)
    }
}

/// Returns the result of the first check of an offboarding, and ignores holds. Changes nothing.
///
/// # Errors
/// The errors of [`CheckLeaving`], without those of holds.
pub fn survey_records(view: &mut View, tenant: &TenantId) -> Result<LeavingCheck, Undecided> {
    check(view, tenant)
}

/// Passes the point of no return: marks the pivot in the document of holds, and the tenant as being destroyed, in one commit.
///
/// From then on its nodes accept no work. Fails with `hold.in_force` while a hold is in force, and with `node.busy` while the ledger lists a running
/// workload. Safe to decide again. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginDestroying {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The digest of the approved inventory.
    pub approved: Digest,
}

impl LedgerAction for BeginDestroying {
    const NAME: &'static str = "BeginDestroying";
    type Output = Pivot;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Pivot, Undecided> {
        let pass = PassPivot {
            tenant: self.tenant.clone(),
            scope: HoldScope::Tenant,
            approved: self.approved.clone(),
        };
        let pivot = pass.decide(view, call)?;
        let tenant = view.require::<Tenant>(self.tenant.as_str())?;
        // A closed tenant stays closed while its remains are destroyed.
        if tenant.state != TenantState::Closed {
            let from = [TenantState::Leaving, TenantState::Destroying];
            view.put(&turn(tenant, &from, TenantState::Destroying)?)?;
        }
        if let Some(occupancy) = view.get::<Occupancy>(self.tenant.as_str())? {
            let resting = resting_nodes(view, &self.tenant, &occupancy)?;
            let nodes: Vec<NodeId> = occupancy.nodes.into_keys().chain(resting).collect();
            admission::rest_nodes(view, &self.tenant, &nodes)?;
            admission::forget_nodes(view, &self.tenant, &nodes)?;
        }
        Ok(pivot)
    }
}

impl OffboardingTerms {
    pub(crate) fn from_policy(policy: &policy::PlatformPolicy, tier: Tier) -> Self {
        let sanitisation = &policy.sanitisation;
        let gate = |ask: &ApprovalFor, otherwise: &ApprovalGate| {
            approval(ask, policy).answer.gate().unwrap_or_else(|| otherwise.clone())
        };
        Self {
            policy: policy.reference.clone(),
            offboard: gate(&ApprovalFor::Offboard {}, &policy.approvals.offboard),
            destroy: gate(&ApprovalFor::Destroy { assets: 0 }, &policy.approvals.destroy),
            certificate_kept: Some(policy.offboarding.certificate_kept),
            export_window: policy.offboarding.export_window,
            extension: policy.offboarding.extension,
            at_once: sanitisation.concurrency,
            demands: crate::offboarding::node_sanitisation::SanitisationDemands {
                // No backend erases a drive that is not NVMe. Such a drive ends in quarantine, whatever policy requires for its medium.
                drives: sanitisation.method(Medium::Nvme, tier),
                gpu_memory: sanitisation.method(Medium::GpuMemory, tier),
                attempts: sanitisation.attempts,
                within: sanitisation.within,
                drain: policy.offboarding.drain,
            },
            retention: super::retention::rules(&policy.retention),
        }
    }
}
