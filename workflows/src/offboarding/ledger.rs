//! What an offboarding writes into the ledger until destruction begins: who leaves, on which terms, and the point of no
//! return.

pub(super) mod remaining;

use super::{LeavingTenant, OffboardingTerms, RemainingAssets};
use crate::{
    destruction::{HoldScope, PassPivot, Pivot, codes as destruction_codes, holds_of},
    ledger::{codes, thaw},
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

/// Looks whether a tenant may leave: that it is in use, and that nothing of it stands under hold. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckLeaving {
    /// The tenant's id.
    pub tenant: TenantId,
    /// Whether it is closed, and what remains of it is offboarded.
    #[serde(default)]
    pub remaining: bool,
}

/// Who leaves, and on which terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeavingCheck {
    /// Who.
    pub leaver: LeavingTenant,
    /// On which terms.
    pub terms: OffboardingTerms,
    /// Of a closed tenant: what remains of it.
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

/// Refuses while something else changes the tenant: what that would put back, or open again, must not outlive the tenant.
///
/// # Errors
/// `tenant.changing`, which says what; what the view lacks.
fn undisturbed(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let others = disturbing(view, tenant)?;
    if others.is_empty() {
        return Ok(());
    }
    let why = format!("tenant {tenant} is being changed: {}", others.join("; "));
    Err(ActionError::permanent(codes::TENANT_CHANGING, why).into())
}

/// What else changes the tenant, a sentence each.
///
/// # Errors
/// What the view lacks.
pub(super) fn disturbing(view: &mut View, tenant: &TenantId) -> Result<Vec<String>, Undecided> {
    let open = view.get::<Earmarks>(tenant.as_str())?.map(|marks| marks.open).unwrap_or_default();
    let mut others = Vec::new();
    if !open.is_empty() {
        others.push(format!("{} changes of its quotas are under way", open.len()));
    }
    let frozen = view.get::<Cohort>(tenant.as_str())?.map(|cohort| cohort.accounts).unwrap_or_default();
    for (workspace, account) in frozen {
        if let AccountState::Frozen { by } = account.admitting {
            others.push(format!("workspace {workspace} is frozen by execution {by}"));
        }
    }
    Ok(others)
}

/// Workloads of the tenant that run.
fn running(view: &mut View, tenant: &TenantId, workspaces: &[WorkspaceName]) -> Result<u32, Undecided> {
    let keys: Vec<String> = workspaces.iter().flat_map(|name| RunningList::keys(tenant, name)).collect();
    view.prefetch::<RunningList>(keys.iter().cloned())?;
    let mut count = 0_usize;
    for key in keys {
        count = count.saturating_add(view.get::<RunningList>(&key)?.map_or(0, |list| list.running.len()));
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Refuses while work of the tenant runs and policy lets nobody end it then. Where policy lets people decide, they are asked
/// about every offboarding anyway.
///
/// # Errors
/// `tenant.in_use`; what the view lacks.
fn out_of_use(view: &mut View, tenant: &TenantId, workspaces: &[WorkspaceName]) -> Result<(), Undecided> {
    match blocked_by_use(view, tenant, workspaces)? {
        None => Ok(()),
        Some(why) => Err(ActionError::permanent(codes::TENANT_IN_USE, why).into()),
    }
}

/// Why policy lets nobody end the tenant while its work runs; `None` where nothing runs, or people may decide.
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

/// Refuses to begin while a hold keeps anything of the tenant. Where policy allows what is outside of a hold to go
/// (`offboarding.partial_ok`), only a hold on the whole tenant stands in the way of beginning. Nothing is destroyed before
/// [`RecheckHolds`] and [`BeginDestroying`] have found no hold at all.
fn unheld_to_begin(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let policy = policy::in_force(view)?;
    let holds = holds_of(view, tenant)?;
    if holds.covering(&HoldScope::Tenant).any(|hold| delays(&hold.scope, &policy)) {
        return unheld(view, tenant);
    }
    Ok(())
}

/// Whether a hold keeps an offboarding from beginning.
pub(crate) fn delays(hold: &HoldScope, policy: &policy::PlatformPolicy) -> bool {
    *hold == HoldScope::Tenant || !policy.offboarding.partial_ok
}

/// Refuses while a hold keeps anything of the tenant.
///
/// # Errors
/// `hold.in_force`, which names the holds; what the view lacks.
pub(super) fn unheld(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let holds = holds_of(view, tenant)?;
    let keeping: Vec<_> =
        holds.covering(&HoldScope::Tenant).map(|hold| format!("{} ({})", hold.id, hold.reason)).collect();
    if keeping.is_empty() {
        return Ok(());
    }
    let why = format!("tenant {tenant} stands under hold: {}", keeping.join(", "));
    Err(ActionError::permanent(destruction_codes::HELD, why).into())
}

/// What the ledger knows of a tenant that is to leave.
///
/// # Errors
/// `tenant.not_active` when it is not in use; what the view lacks.
pub(super) fn check(view: &mut View, id: &TenantId) -> Result<LeavingCheck, Undecided> {
    let refused = |why: String| ActionError::permanent(codes::TENANT_NOT_ACTIVE, why);
    let Some(tenant) = view.get::<Tenant>(id.as_str())? else {
        return Err(refused(format!("there is no tenant {id}")).into());
    };
    match tenant.state {
        TenantState::Active | TenantState::Leaving => {}
        TenantState::Onboarding => return Err(refused(format!("tenant {id} is being onboarded")).into()),
        TenantState::Destroying => return Err(refused(format!("tenant {id} is being destroyed")).into()),
        TenantState::Closed => return Err(refused(format!("tenant {id} is closed for good")).into()),
    }
    let Some(holding) = view.get::<NodeAllocation>(id.as_str())? else {
        return Err(refused(format!("tenant {id} holds no nodes, not even none")).into());
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

/// Marks a tenant as leaving: its accounts are frozen, no new work is taken in, and the key of its cluster only reports.
///
/// Safe to decide again. Its undo is [`StayOn`].
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
        // Of what remains of a closed tenant nothing has to be stopped.
        if tenant.state == TenantState::Closed {
            return Ok(());
        }
        out_of_use(view, &self.tenant, &tenant.workspaces)?;
        if tenant.state == TenantState::Active {
            undisturbed(view, &self.tenant)?;
        }
        // Also what an offboarding froze that people ended by force.
        admission::freeze_all(view, &self.tenant, call.execution)?;
        allow(view, &tenant, vec![Allowed::PushFacts])?;
        view.put(&turn(tenant, &[TenantState::Active, TenantState::Leaving], TenantState::Leaving)?)
    }
}

/// Takes back that a tenant leaves. Safe to run twice; tolerates that it never began to.
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

/// Sets what the key of the tenant's own cluster allows, if it has one.
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
        let why = format!("tenant {} is {is} and cannot become {wanted}", tenant.id);
        return Err(ActionError::permanent(codes::TENANT_NOT_ACTIVE, why).into());
    }
    Ok(Tenant { state: to, ..tenant })
}

/// Says that nothing keeps the tenant's data any more. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecheckHolds {
    /// Whose.
    pub tenant: TenantId,
}

impl LedgerAction for RecheckHolds {
    const NAME: &'static str = "RecheckHolds";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        unheld(view, &self.tenant)
    }
}

/// Ends the tenant's work in the books, once its platform was seen to run nothing, a part at a time. What it ends does not come
/// back. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndWork {
    /// Whose.
    pub tenant: TenantId,
}

impl LedgerAction for EndWork {
    const NAME: &'static str = "EndWork";
    type Output = EndedWork;

    fn decide(&self, view: &mut View, _: &Call) -> Result<EndedWork, Undecided> {
        admission::end_work(view, &self.tenant)
    }
}

/// What an offboarding would learn of a tenant first, whether or not holds stand in its way. Changes nothing.
///
/// # Errors
/// As [`CheckLeaving`], but for holds.
pub fn survey_records(view: &mut View, tenant: &TenantId) -> Result<LeavingCheck, Undecided> {
    check(view, tenant)
}

/// Passes the point of no return: marks it in the document of holds, and the tenant as being destroyed, in one commit.
///
/// From then on none of its nodes can be given any work. Refused with `hold.in_force` while anything stands under hold, and
/// with `node.busy` while the books say that something runs. Safe to decide again. Nothing undoes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginDestroying {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The inventory that people approved.
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
        // What remains of a closed tenant is destroyed while the tenant stays closed.
        if tenant.state != TenantState::Closed {
            let from = [TenantState::Leaving, TenantState::Destroying];
            view.put(&turn(tenant, &from, TenantState::Destroying)?)?;
        }
        if let Some(occupancy) = view.get::<Occupancy>(self.tenant.as_str())? {
            let nodes: Vec<NodeId> = occupancy.nodes.into_keys().collect();
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
                // No backend erases a drive that is not NVMe: such a one ends in quarantine, whatever policy asks of its medium.
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
