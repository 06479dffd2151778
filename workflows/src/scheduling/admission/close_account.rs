//! The end of an account: what stands in it is ended, part by part, and then it is closed.
//!
//! Called by an offboarding, when the platform was seen to run nothing any more.

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

/// What ending a tenant's work came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedWork {
    /// How many were ended now.
    pub ended: usize,
    /// Whether there are others.
    pub more: bool,
}

/// Ends workloads of a tenant, at most [`MAX_ENDED_PER_COMMIT`] at a time: those in line first, so that nothing is called back for
/// them, then those that run, with their loans. Every account must be frozen, or who waits would take what becomes free.
/// Tolerates a tenant without an account.
///
/// # Errors
/// What the view lacks.
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

/// Closes a tenant's account for good: what it used this month is written down, and nothing more can be decided in it.
/// Decisions, workloads and loans stay as they are, for whoever audits. Tolerates that it is closed.
///
/// # Errors
/// What the view lacks; a permanent `workload.state` while anything runs or waits in it.
pub fn close_account(view: &mut View, tenant: &TenantId) -> Result<(), Undecided> {
    let Some(cohort) = view.get::<Cohort>(tenant.as_str())? else { return Ok(()) };
    for (workspace, account) in &cohort.accounts {
        let used =
            account.balances.values().map(crate::tenancy::Balance::in_use).fold(0, u64::saturating_add);
        if used > 0 || account.waiting > 0 {
            let problem = format!(
                "workspace {workspace} of tenant {tenant} still uses {used}, and {} of its workloads wait",
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
