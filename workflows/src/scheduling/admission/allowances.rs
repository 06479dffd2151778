//! Changes of allowances: opens, changes, freezes and closes accounts, and settles loans in the same commit.

use crate::{
    scheduling::admission::{
        AdmissionEffects, apply_loans::SettlementCause, codes, unit_of_work::AdmissionTx,
    },
    tenancy::{
        Account, AccountReservation, AccountState, Allowance, Cohort, Resource, TenantId, WorkspaceClass,
        WorkspaceName,
    },
};
use engine::{ActionError, Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::ExecutionId;

/// The allowance of a workspace by resource, as in [`Quota::allowances`](crate::tenancy::Quota::allowances).
pub type Allowances = BTreeMap<Resource, Allowance>;

impl Cohort {
    /// Returns the account with the allowances of a workspace replaced; its usage stays. A kind of GPU that is not named may not be used; any other resource is
    /// unlimited. The caller must settle loans afterwards, as [`set_allowances`] does.
    #[must_use]
    pub fn with_allowances(
        mut self,
        workspace: &WorkspaceName,
        class: WorkspaceClass,
        allowances: &Allowances,
    ) -> Self {
        let account = self.accounts.entry(workspace.clone()).or_insert_with(|| Account::new(class));
        account.class = class;
        for (resource, balance) in &mut account.balances {
            balance.allowance = match (allowances.get(resource), resource.gpu()) {
                (Some(allowance), _) => *allowance,
                (None, Some(_)) => Allowance::default(),
                (None, None) => Allowance::UNLIMITED,
            };
        }
        for (resource, allowance) in allowances {
            account.balances.entry(resource.clone()).or_default().allowance = *allowance;
        }
        self
    }
}

/// Replaces the allowances of workspaces. Opens missing accounts, moves loans that lenders need back to other lenders, and admits queued workloads to freed
/// GPUs. Called in the decision that writes the [`Quota`](crate::tenancy::Quota)s; the tenant must be registered. Usage above a lowered quota appears as
/// [`Balance::over_quota`](crate::tenancy::Balance::over_quota).
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `cohort.full`.
pub fn set_allowances(
    view: &mut View,
    tenant: &TenantId,
    allowances: &BTreeMap<WorkspaceName, (WorkspaceClass, Allowances)>,
) -> Result<AdmissionEffects, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    for (workspace, (class, allowances)) in allowances {
        desk.cohort.change(|cohort| cohort.with_allowances(workspace, *class, allowances));
    }
    desk.limit_cohort()?;
    desk.settle_all(view)?;
    desk.admit_waiting(view)?;
    desk.save(view)
}

/// Removes all allowances of workspaces. Closes accounts without usage and without queued workloads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn clear_allowances(
    view: &mut View,
    tenant: &TenantId,
    workspaces: &[WorkspaceName],
) -> Result<AdmissionEffects, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    for workspace in workspaces {
        let Some(class) = desk.cohort.accounts.get(workspace).map(|account| account.class) else { continue };
        desk.cohort.change(|cohort| cohort.with_allowances(workspace, class, &Allowances::new()));
    }
    desk.settle_all(view)?;
    desk.admit_waiting(view)?;
    for workspace in workspaces {
        desk.close(workspace);
    }
    desk.save(view)
}

/// Replaces the reservations of a workspace. Called in the decision that writes the [`Reservation`](crate::tenancy::Reservation)s.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `workspace.unknown`.
pub fn set_promises(
    view: &mut View,
    tenant: &TenantId,
    workspace: &WorkspaceName,
    promises: BTreeMap<String, AccountReservation>,
) -> Result<(), Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    desk.account_mut(workspace)?.promises = promises;
    desk.save(view)?;
    Ok(())
}

/// Stops new admissions in workspaces until [`thaw`] by the same execution. A workspace that another execution froze stays with that execution.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `workspace.unknown`.
pub fn freeze(
    view: &mut View,
    tenant: &TenantId,
    workspaces: &[WorkspaceName],
    by: ExecutionId,
) -> Result<(), Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    for workspace in workspaces {
        let account = desk.account_mut(workspace)?;
        if account.admitting == AccountState::Open {
            account.admitting = AccountState::Frozen { by };
        }
    }
    desk.save(view)?;
    Ok(())
}

/// Freezes every account of a tenant for `by`, also accounts that other executions froze. Called when the tenant leaves, so that no other execution can thaw
/// them. Tolerates a tenant without an account.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn freeze_all(view: &mut View, tenant: &TenantId, by: ExecutionId) -> Result<(), Undecided> {
    if view.get::<Cohort>(tenant.as_str())?.is_none() {
        return Ok(());
    }
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    for account in desk.cohort.accounts.values_mut() {
        account.admitting = AccountState::Frozen { by };
    }
    desk.save(view)?;
    Ok(())
}

/// Lets workspaces that `by` froze admit again, and admits their queued workloads. Tolerates that it froze none.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn thaw(
    view: &mut View,
    tenant: &TenantId,
    workspaces: &[WorkspaceName],
    by: ExecutionId,
) -> Result<AdmissionEffects, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    for workspace in workspaces {
        if let Some(account) = desk.cohort.accounts.get_mut(workspace)
            && account.admitting == (AccountState::Frozen { by })
        {
            account.admitting = AccountState::Open;
        }
    }
    desk.admit_waiting(view)?;
    desk.save(view)
}

impl AdmissionTx {
    /// Rejects an account that could exceed the size limit of its document.
    fn limit_cohort(&self) -> Result<(), Undecided> {
        let encode = |e| ActionError::permanent("ledger.encode", e);
        let length = serde_json::to_vec::<Cohort>(&self.cohort).map_err(encode)?.len();
        if length > Cohort::LONGEST {
            let (most, count) = (Cohort::LONGEST, self.cohort.accounts.len());
            let problem =
                format!("the account of {count} workspaces would have {length} bytes; the limit is {most}");
            return Err(ActionError::permanent(codes::COHORT_FULL, problem).into());
        }
        Ok(())
    }

    /// Settles the loans of every kind.
    pub(super) fn settle_all(&mut self, view: &mut View) -> Result<(), Undecided> {
        self.keep_to_own(view)?;
        let balances = self.cohort.accounts.values().flat_map(|account| account.balances.keys());
        let kinds: BTreeSet<_> = balances.filter(|resource| resource.gpu().is_some()).cloned().collect();
        for kind in kinds {
            self.settle_loans(view, &kind, SettlementCause::Allowance)?;
        }
        Ok(())
    }
}
