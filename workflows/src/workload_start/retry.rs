//! What becomes of a start that failed: it is recorded in a commit of its own, and the sweep tries again.
//!
//! Invariant: while a workload is admitted and its start has failed, there is either a [`FailedStart`] or an execution that tries again.

use super::{SYSTEM_ACTOR, WorkloadStart};
use crate::tenancy::{FailedStart, TenantId, Workload, WorkloadState};
use engine::{Call, LedgerAction, Notification, Undecided, View};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// Why a workload was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartProblem {
    /// Its cluster does not know it. It runs when its owner submits it there.
    NotInCluster,
    /// Its cluster could not be asked, or refused.
    Failed {
        /// How many starts by the same decision have failed, this one included.
        tries: u32,
    },
}

/// Records that an admitted workload was not started: with the time of the next try, and with a notice where people have to act. A
/// workload that is not admitted any more, or by another decision, is left alone, so it is safe to decide again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFailedStart {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its name.
    pub workload: String,
    /// The decision by which it was to be started: a failure under another one says nothing of the admission that stands. `None` in
    /// calls of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Why.
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
                    "{about} has its GPUs, and its cluster does not know it: submit it there, or end it so that others get its GPUs"
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
                    "{about} has its GPUs, and {tries} starts in its cluster have failed, the last one as {execution}; it is tried \
                     again with pauses of at most 6 h until it runs or ends"
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

/// Tries a failed start again if it is due and the workload is still admitted by the same decision and was not seen to run; forgets it if
/// not. Answers whether it tries again.
///
/// # Errors
/// What the view lacks.
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
