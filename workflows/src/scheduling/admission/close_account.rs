//! Ends all work in an account, batch by batch, and then closes it.
//!
//! Called by an offboarding after the platform was observed to run no workload of the tenant.

use super::{codes, finish};
use crate::tenancy::{
    Cohort, LastObservation, Occupancy, OpenLoans, RunningList, TenantId, Workload, WorkspaceName,
    WorkspaceQueue, workspace_key,
};
use engine::{ActionError, Entity as _, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most workloads that one commit ends.
pub const MAX_ENDED_PER_COMMIT: usize = 16;

/// The result of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedWork {
    /// The number of workloads ended in this commit.
    pub ended: usize,
    /// True if workloads remain.
    pub more: bool,
}

/// Ends at most [`MAX_ENDED_PER_COMMIT`] workloads of a tenant: first queued ones, so that no reclaim starts for them, then running ones with their loans.
/// Every account must be frozen, otherwise queued workloads would take the freed GPUs. Tolerates a tenant without an account.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn end_work(view: &mut View, tenant: &TenantId) -> Result<EndedWork, Undecided> {
    let Some(cohort) = view.get::<Cohort>(tenant.as_str())? else { return Ok(EndedWork::default()) };
    let waits = cohort.accounts.iter().filter(|(_, account)| account.waiting > 0);
    let lines: Vec<String> = waits.map(|(name, _)| workspace_key(tenant, name)).collect();
    let uses =
        cohort.accounts.iter().filter(|(_, account)| account.balances.values().any(|b| b.in_use() > 0));
    let rosters: Vec<String> = uses.flat_map(|(name, _)| RunningList::keys(tenant, name)).collect();
    let wants = [view.prefetch::<WorkspaceQueue>(lines.iter()), view.prefetch::<RunningList>(rosters.iter())];
    wants.into_iter().collect::<Result<Vec<()>, _>>()?;
    let mut names = Vec::new();
    for line in &lines {
        names.extend(
            view.get::<WorkspaceQueue>(line)?.into_iter().flat_map(|line| line.waiting).map(|w| w.workload),
        );
    }
    for roster in &rosters {
        names.extend(
            view.get::<RunningList>(roster)?.into_iter().flat_map(|roster| roster.running.into_keys()),
        );
    }
    let more = names.len() > MAX_ENDED_PER_COMMIT;
    names.truncate(MAX_ENDED_PER_COMMIT);
    view.prefetch::<Workload>(names.iter().map(|name| Workload::key(tenant, name)))?;
    for name in &names {
        finish(view, tenant, name)?;
    }
    Ok(EndedWork { ended: names.len(), more })
}

/// Closes a tenant's account for good: records this month's usage, and rejects all further decisions. Keeps decisions, workloads and loans for audits.
/// Tolerates a closed account.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `workload.state` while a workload runs or waits.
pub fn close_account(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let Some(cohort) = view.get::<Cohort>(tenant.as_str())? else { return Ok(()) };
    for (workspace, account) in &cohort.accounts {
        let used =
            account.balances.values().map(crate::tenancy::Balance::in_use).fold(0, u64::saturating_add);
        if used > 0 || account.waiting > 0 {
            let problem = format!(
                "workspace {workspace} of tenant {tenant} still uses {used}, and {} of its workloads are queued",
                account.waiting
            );
            return Err(ActionError::permanent(codes::WORKLOAD_STATE, problem).into());
        }
    }
    for usage in super::usage_so_far(&cohort, view.now()) {
        view.put(&usage)?;
    }
    let workspaces: Vec<&WorkspaceName> = cohort.accounts.keys().collect();
    for workspace in workspaces {
        view.delete::<WorkspaceQueue>(&workspace_key(tenant, workspace))?;
        for roster in RunningList::keys(tenant, workspace) {
            view.delete::<RunningList>(&roster)?;
        }
    }
    let resources: BTreeSet<_> =
        cohort.accounts.values().flat_map(|account| account.balances.keys()).collect();
    for resource in resources.into_iter().filter(|resource| resource.gpu().is_some()) {
        view.delete::<OpenLoans>(&OpenLoans::key(tenant, resource))?;
    }
    view.delete::<Occupancy>(tenant.as_str())?;
    view.delete::<LastObservation>(tenant.as_str())?;
    view.delete::<Cohort>(&cohort.id())
}
