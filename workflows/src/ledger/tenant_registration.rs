//! The registration of a tenant in the ledger, from the reserved name to active service.

use crate::{
    ledger::{codes, node_claim},
    policy::{ClosedName, OnboardingRequest, PolicyRef, day, has_ended},
    scheduling::admission,
    tenancy::{Entitlement, GpuSlicing, Tenant, TenantId, TenantState, Workspace, workspace_key},
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};

/// Reserves the tenant's name and records the purchase.
///
/// Safe to decide again for the same execution. Its undo, [`UnregisterTenant`], tolerates that the name belonged to another tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegisterTenant {
    /// The request.
    pub request: OnboardingRequest,
    /// The policy of the admission.
    pub policy: PolicyRef,
    /// The slicing of the GPUs that it bought. `None` for whole GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
}

impl LedgerAction for RegisterTenant {
    const NAME: &'static str = "RegisterTenant";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let request = &self.request;
        let there = view.get::<Tenant>(request.name.as_str())?;
        if let Some(other) = there.filter(|tenant| tenant.in_use() && tenant.onboarded_by != call.execution) {
            let problem = match other.state {
                TenantState::Closed => {
                    format!("the name {} {}", other.id, ClosedName { at: other.closed_at }.describe())
                }
                TenantState::Onboarding
                | TenantState::Active
                | TenantState::Leaving
                | TenantState::Destroying => {
                    format!("tenant {} is in use, onboarded by {}", other.id, other.onboarded_by)
                }
            };
            return Err(ActionError::permanent(codes::NAME_TAKEN, problem).into());
        }
        let today = day(view.now());
        if let Some(to) = request.entitlement.to.as_ref().filter(|to| has_ended(to, &today)) {
            let problem =
                format!("the contract of tenant {} ended before {to}; today is {today}", request.name);
            return Err(ActionError::permanent(codes::CONTRACT_ENDED, problem).into());
        }
        let tenant = Tenant {
            id: request.name.clone(),
            tier: request.tenant.tier,
            isolation: request.tenant.isolation,
            data_residency: request.tenant.data_residency.clone(),
            allow_preemption: request.tenant.allow_preemption,
            allow_gpu_sharing: request.tenant.allow_gpu_sharing,
            compliance: request.compliance.clone(),
            policy: self.policy.clone(),
            state: TenantState::Onboarding,
            workspaces: request.workspaces.iter().map(|workspace| workspace.name.clone()).collect(),
            cluster: None,
            onboarded_by: call.execution,
            created_at: view.now(),
            activated_at: None,
            closed_at: None,
            multitenancy: request.multitenancy,
        };
        view.put(&tenant)?;
        for workspace in &request.workspaces {
            let (tenant, name) = (request.name.clone(), workspace.name.clone());
            view.put(&Workspace { tenant, name, class: workspace.class })?;
        }
        let bought = request.entitlement.clone();
        view.put(&Entitlement {
            tenant: request.name.clone(),
            gpu_model: bought.gpu_model,
            gpus: bought.gpus,
            slicing: self.slicing.clone(),
            region: bought.region,
            from: bought.from,
            to: bought.to,
        })
    }
}

/// Releases the tenant's name and deletes the records. Safe to run twice. A tenant that is active, or that another execution registered, is left
/// unchanged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnregisterTenant {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for UnregisterTenant {
    const NAME: &'static str = "UnregisterTenant";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let there = view.get::<Tenant>(self.tenant.as_str())?;
        let ours = |tenant: &Tenant| {
            tenant.onboarded_by == call.execution && tenant.state == TenantState::Onboarding
        };
        let Some(tenant) = there.filter(ours) else { return Ok(()) };
        for workspace in &tenant.workspaces {
            view.delete::<Workspace>(&workspace_key(&tenant.id, workspace))?;
        }
        view.delete::<Entitlement>(tenant.id.as_str())?;
        view.delete::<Tenant>(tenant.id.as_str())
    }
}

/// Activates the tenant and its nodes. It is after the point of no return, so it has no undo. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActivateTenant {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for ActivateTenant {
    const NAME: &'static str = "ActivateTenant";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let tenant = view.require::<Tenant>(self.tenant.as_str())?;
        let closed =
            || ActionError::permanent(codes::TENANT_CLOSED, format!("tenant {} is closed", self.tenant));
        let holding = node_claim::held(view, &self.tenant, call)?;
        for node in node_claim::nodes(view, holding.nodes.keys())? {
            view.put(&node.serve(node.owner_epoch).map_err(node_claim::changed)?)?;
        }
        super::quotas::thaw(view, &self.tenant, call)?;
        let active = tenant.activate(view.now()).ok_or_else(closed)?;
        view.put(&active)?;
        let nodes: Vec<_> = holding.nodes.keys().cloned().collect();
        admission::serve_nodes(view, &self.tenant, &nodes)?;
        Ok(())
    }
}
