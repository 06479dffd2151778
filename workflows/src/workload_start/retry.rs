//! Failed starts: each failure is recorded in its own commit, and the sweep retries it.
//!
//! Invariant: while a workload is admitted and its start has failed, there is either a [`FailedStart`] or an execution that retries it.

use super::{SYSTEM_ACTOR, WorkloadStart};
use crate::tenancy::{FailedStart, TenantId, Workload, WorkloadState};
use engine::{Call, LedgerAction, Notification, Undecided, View};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// The reason why a workload was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartProblem {
    /// The cluster has no such workload. It runs when its owner submits it there.
    NotInCluster,
    /// The cluster was unreachable or refused.
    Failed {
        /// The number of failed starts by the same decision, including this one.
        tries: u32,
    },
}

/// Records that an admitted workload was not started: with the time of the next attempt, and with a notice if an operator must act. Ignores a workload that is
/// no longer admitted, or is admitted by another decision, so it is safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFailedStart {
    /// The tenant.
    pub tenant: TenantId,
    /// The name.
    pub workload: String,
    /// The decision of the start. A failure under another decision does not concern the admission in force. `None` in calls of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The reason.
    pub problem: StartProblem,
}

impl LedgerAction for RecordFailedStart {
    const NAME: &'static str = "RecordFailedStart";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        self.record(view, call.execution)
    }
}

impl RecordFailedStart {
    pub(crate) fn record(&self, view: &mut View, execution: ExecutionId) -> Result<(), Undecided> {
        let found = view.get::<Workload>(&Workload::key(&self.tenant, &self.workload))?;
        let ours = |workload: &Workload| {
            let same = self.decision.as_ref().is_none_or(|decision| *decision == workload.decision);
            workload.state == WorkloadState::Admitted && same
        };
        let Some(workload) = found.filter(ours) else { return Ok(()) };
        let about = format!("{}/{}", self.tenant, self.workload);
        match self.problem {
            StartProblem::NotInCluster => {
                let text = format!(
                    "{about} has its GPUs, but its cluster does not know it: submit it there, or end it to free its GPUs"
                );
                self.tell(view, (&workload, "workload.not_in_cluster"), about, text)
            }
            StartProblem::Failed { tries } => {
                let at = view.now();
                let failed = FailedStart {
                    tenant: self.tenant.clone(),
                    workload: self.workload.clone(),
                    decision: workload.decision.clone(),
                    execution,
                    tries,
                    at,
                    next_at: at.after(FailedStart::pause(tries)),
                };
                view.put(&failed)?;
                if tries != FailedStart::STUCK_AFTER {
                    return Ok(());
                }
                let text = format!(
                    "{about} has its GPUs, but {tries} starts in its cluster have failed, the last one in execution {execution}; starts are retried at least every 6 h until it runs or ends"
                );
                self.tell(view, (&workload, "workload.not_started"), about, text)
            }
        }
    }

    fn tell(
        &self,
        view: &mut View,
        (workload, kind): (&Workload, &str),
        about: String,
        text: String,
    ) -> Result<(), Undecided> {
        view.put(&Notification {
            id: format!("{kind}.{}", workload.decision),
            kind: kind.to_owned(),
            reason: None,
            tenant: self.tenant.to_string(),
            to: vec!["tenant_owner".into(), "platform_ops".into()],
            text,
            about,
            at: view.now(),
        })
    }
}

/// Retries a failed start if it is due and the workload is still admitted by the same decision and was not observed running. Keeps it until it is due, and
/// removes it if the workload changed. Returns true if it retries.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn try_again(view: &mut View, tenant: &TenantId, workload: &str) -> Result<bool, Undecided> {
    let key = Workload::key(tenant, workload);
    let Some(failed) = view.get::<FailedStart>(&key)? else { return Ok(false) };
    let found = view.get::<Workload>(&key)?;
    let stands = found.is_some_and(|workload| {
        workload.state == WorkloadState::Admitted
            && workload.decision == failed.decision
            && workload.observed.is_none()
    });
    if stands && failed.next_at > view.now() {
        return Ok(false);
    }
    view.delete::<FailedStart>(&key)?;
    if stands {
        let start = WorkloadStart::after(&failed);
        view.start(&start, SYSTEM_ACTOR, &start.key())?;
    }
    Ok(stands)
}
