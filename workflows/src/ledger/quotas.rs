//! Quotas of a tenant's workspaces, never more in sum than the tenant owns (I-5).

use super::codes;
use crate::tenancy::{
    GpuModel, Gpus, Holding, Limits, Quota, Resource, Tenant, TenantId, WorkspaceName, workspace_key,
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sets the quotas of some of a tenant's workspaces.
///
/// Every quota of the tenant is read, so of two changes that together exceed what is owned one is decided again and
/// refused. Safe to decide again. Its undo, [`ClearQuotas`], tolerates that none was set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetQuotas {
    /// Whose.
    pub tenant: TenantId,
    /// The GPU model that is counted.
    pub model: GpuModel,
    /// By workspace.
    pub limits: BTreeMap<WorkspaceName, Limits>,
    /// Whether policy lets the sum exceed what is owned.
    pub overcommit: bool,
}

impl LedgerAction for SetQuotas {
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let tenant = view.need::<Tenant>(self.tenant.as_str())?;
        let owned =
            view.get::<Holding>(self.tenant.as_str())?.map(|holding| holding.owned()).unwrap_or_default();
        let key = |workspace: &WorkspaceName| workspace_key(&self.tenant, workspace);
        view.want::<Quota>(tenant.workspaces.iter().chain(self.limits.keys()).map(key))?;
        let mut sum: Gpus = self.limits.values().map(|limits| limits.nominal).sum();
        for workspace in tenant.workspaces.iter().filter(|workspace| !self.limits.contains_key(*workspace)) {
            let other = view.get::<Quota>(&key(workspace))?;
            sum = sum.plus(other.map(|quota| nominal(&quota, &self.model)).unwrap_or_default());
        }
        if sum > owned && !self.overcommit {
            let problem =
                format!("quotas of tenant {} would come to {sum} GPUs, and it owns {owned}", self.tenant);
            return Err(ActionError::permanent(codes::OVER_OWNED, problem).into());
        }
        for (workspace, limits) in &self.limits {
            let before = view.get::<Quota>(&key(workspace))?.map_or(0, |quota| quota.version);
            view.put(&Quota {
                tenant: self.tenant.clone(),
                workspace: workspace.clone(),
                allowances: limits.allowances(&self.model),
                version: before.saturating_add(1),
                set_by: call.execution,
                ends: None,
            })?;
        }
        Ok(())
    }
}

/// A quota's own GPUs of `model`, whole ones.
fn nominal(quota: &Quota, model: &GpuModel) -> Gpus {
    let nominal = quota.allowances.get(&Resource::gpus(model.clone())).map_or(0, |line| line.nominal);
    Gpus(u32::try_from(nominal).unwrap_or(u32::MAX))
}

/// Takes quotas away. Safe to run twice, and tolerates that none was set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClearQuotas {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspaces.
    pub workspaces: Vec<WorkspaceName>,
}

impl LedgerAction for ClearQuotas {
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        for workspace in &self.workspaces {
            view.delete::<Quota>(&workspace_key(&self.tenant, workspace))?;
        }
        Ok(())
    }
}
