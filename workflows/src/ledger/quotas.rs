//! Quotas of a tenant's workspaces. Their sum never exceeds the GPUs that the tenant owns (I-5).
//!
//! Each granted quota is in the [`Quota`] of its workspace and in the tenant's [`Cohort`], which admission reads. One commit always writes both.

use super::codes;
use crate::{
    scheduling::admission,
    tenancy::{
        AccountState, Cohort, Earmarks, Entitlement, GpuModel, GpuOffer, NodeAllocation, Quota, QuotaLimits,
        Resource, Tenant, TenantId, TenantState, Workspace, WorkspaceClass, WorkspaceName, workspace_key,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A tenant's GPUs of one kind, and the amounts that are already assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuHoldings {
    /// The GPUs of nodes that serve or will serve.
    pub owned: u64,
    /// The sum of the quotas of all workspaces.
    pub nominal: u64,
    /// The GPUs that open changes have earmarked, apart from the nodes that they claimed themselves.
    pub earmarked: u64,
}

impl GpuHoldings {
    /// Returns the number of GPUs that are missing for another `more`.
    #[must_use]
    pub fn lacking(&self, more: u64) -> u64 {
        self.nominal.saturating_add(self.earmarked).saturating_add(more).saturating_sub(self.owned)
    }
}

/// Sets the quotas of some of a tenant's workspaces, and opens the tenant's account. During the onboarding the account admits nothing.
///
/// Reads every quota of the tenant, so that of two changes that together exceed the owned GPUs, one is decided again and fails. Safe to decide again.
/// Its undo, [`ClearQuotas`], tolerates that no quota was set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetQuotas {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The GPU model of the quotas.
    pub model: GpuModel,
    /// The quotas, by workspace.
    pub limits: BTreeMap<WorkspaceName, QuotaLimits>,
    /// True if policy permits that the sum exceeds the owned GPUs.
    pub overcommit: bool,
}

impl LedgerAction for SetQuotas {
    const NAME: &'static str = "SetQuotas";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let tenant = view.require::<Tenant>(self.tenant.as_str())?;
        let key = |workspace: &WorkspaceName| workspace_key(&self.tenant, workspace);
        view.prefetch::<Quota>(tenant.workspaces.iter().chain(self.limits.keys()).map(key))?;
        let offer = offer(view, &self.tenant, &self.model)?;
        let (kind, resource) = (offer.kind.clone(), offer.resource());
        let others: Vec<_> = tenant
            .workspaces
            .iter()
            .filter(|workspace| !self.limits.contains_key(*workspace))
            .cloned()
            .collect();
        let stand = gpu_holdings(view, &self.tenant, &others, &resource)?;
        let new: u64 = self.limits.values().map(|limits| u64::from(limits.nominal.0)).sum();
        if stand.lacking(new) > 0 && !self.overcommit {
            let sum = stand.nominal.saturating_add(stand.earmarked).saturating_add(new);
            let problem = format!(
                "the quotas of tenant {} would be {sum} of {resource} together, but it owns {}",
                self.tenant, stand.owned
            );
            return Err(ActionError::permanent(codes::OVER_OWNED, problem).into());
        }
        let mut allowed = BTreeMap::new();
        for (workspace, limits) in &self.limits {
            let allowances = limits.allowances(&kind);
            let class = view.get::<Workspace>(&key(workspace))?.map(|workspace| workspace.class);
            let class = class.unwrap_or(WorkspaceClass::Production);
            allowed.insert(workspace.clone(), (class, allowances.clone()));
            let before = view.get::<Quota>(&key(workspace))?.map_or(0, |quota| quota.version);
            view.put(&Quota {
                tenant: self.tenant.clone(),
                workspace: workspace.clone(),
                allowances,
                version: before.saturating_add(1),
                set_by: call.execution,
                ends: None,
            })?;
        }
        admission::set_allowances(view, &self.tenant, &allowed)?;
        if tenant.state == TenantState::Onboarding {
            let workspaces: Vec<_> = self.limits.keys().cloned().collect();
            admission::freeze(view, &self.tenant, &workspaces, call.execution)?;
        }
        Ok(())
    }
}

/// Removes quotas and their accounts. Safe to run twice. Tolerates that no quota was set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClearQuotas {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The names of the workspaces.
    pub workspaces: Vec<WorkspaceName>,
}

impl LedgerAction for ClearQuotas {
    const NAME: &'static str = "ClearQuotas";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        for workspace in &self.workspaces {
            view.delete::<Quota>(&workspace_key(&self.tenant, workspace))?;
        }
        if view.get::<Cohort>(self.tenant.as_str())?.is_none() {
            return Ok(());
        }
        admission::clear_allowances(view, &self.tenant, &self.workspaces)?;
        // An account without any decision is deleted.
        let cohort = view.get::<Cohort>(self.tenant.as_str())?;
        match cohort.filter(|cohort| cohort.accounts.is_empty() && cohort.decisions == 0) {
            Some(_) => view.delete::<Cohort>(self.tenant.as_str()),
            None => Ok(()),
        }
    }
}

/// Returns the tenant's amount of `resource`, the quotas of `workspaces`, and the earmarks of open changes.
pub(crate) fn gpu_holdings(
    view: &mut View,
    tenant: &TenantId,
    workspaces: &[WorkspaceName],
    resource: &Resource,
) -> Result<GpuHoldings, Undecided> {
    let holding = view.get::<NodeAllocation>(tenant.as_str())?;
    let owned = match holding {
        Some(holding) => {
            let offer = offer(view, tenant, &holding.model)?;
            if offer.resource() == *resource { offer.pieces(holding.owned()) } else { 0 }
        }
        None => 0,
    };
    let key = |workspace: &WorkspaceName| workspace_key(tenant, workspace);
    view.prefetch::<Quota>(workspaces.iter().map(key))?;
    let mut nominal: u64 = 0;
    for workspace in workspaces {
        let quota = view.get::<Quota>(&key(workspace))?;
        let line = quota.and_then(|quota| quota.allowances.get(resource).copied());
        nominal = nominal.saturating_add(line.map_or(0, |line| line.nominal));
    }
    let earmarked = view.get::<Earmarks>(tenant.as_str())?.map_or(0, |marks| marks.total(resource));
    Ok(GpuHoldings { owned, nominal, earmarked })
}

/// Returns the offer of each GPU of the tenant's nodes of `model`: whole GPUs, or slices if it bought slices.
pub(crate) fn offer(view: &mut View, tenant: &TenantId, model: &GpuModel) -> Result<GpuOffer, Undecided> {
    let bought = view.get::<Entitlement>(tenant.as_str())?;
    Ok(Entitlement::offer_of(bought.as_ref(), model))
}

/// Stops the admission of workspaces. Fails if another execution has stopped one of them.
pub(crate) fn freeze(
    view: &mut View,
    tenant: &TenantId,
    workspaces: &[WorkspaceName],
    call: &Call,
) -> Result<(), Undecided> {
    let cohort = view.require::<Cohort>(tenant.as_str())?;
    let ours = AccountState::Frozen { by: call.execution };
    for workspace in workspaces {
        let admitting = cohort.accounts.get(workspace).map(|account| &account.admitting);
        if admitting.is_some_and(|admitting| *admitting != AccountState::Open && *admitting != ours) {
            let problem = format!("workspace {workspace} is frozen by another execution");
            return Err(ActionError::permanent(codes::WORKSPACE_FROZEN, problem).into());
        }
    }
    admission::freeze(view, tenant, workspaces, call.execution)
}

/// Restores the admission of every workspace that the execution had stopped.
pub(crate) fn thaw(view: &mut View, tenant: &TenantId, call: &Call) -> Result<(), Undecided> {
    let Some(cohort) = view.get::<Cohort>(tenant.as_str())? else { return Ok(()) };
    let ours = AccountState::Frozen { by: call.execution };
    let frozen = cohort.accounts.iter().filter(|(_, account)| account.admitting == ours);
    let frozen: Vec<_> = frozen.map(|(workspace, _)| workspace.clone()).collect();
    if !frozen.is_empty() {
        admission::thaw(view, tenant, &frozen, call.execution)?;
    }
    Ok(())
}
