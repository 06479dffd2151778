//! The start of an admitted workload in its cluster.
//!
//! The commit that admits a workload asks for this execution, so there is no admission without a start and no start without an
//! admission. It shares its guard with the eviction of the same workload: an evicted workload is never started by an older admission.
//! The page is `docs/workflows/workload_start.md`.

mod examples;
mod ledger;
mod retry;

pub use ledger::{ConfirmAdmission, start_command};
pub use retry::{RecordFailedStart, StartProblem, try_again};

use crate::{
    platform::{Platform, StartWorkload, codes},
    tenancy::{FailedStart, TenantId},
};
use engine::{HOUR, Outcome, Plan, Step, Subject, Workflow, act, act_each, end, when};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{ExecutionId, Timestamp};

/// Who asks for the start of an admitted workload.
pub const SYSTEM_ACTOR: &str = "tenure";

/// Where a start is. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/workload_start.md"
)]
pub enum State {
    Confirming,
    Choosing,
    Starting,
    RecordingFailure,
    Started,
    LeftToOwner,
    Superseded,
    NotStarted,
}

/// Which workload is started, and by which admission. Persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadStart {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its name.
    pub workload: String,
    /// The decision that admitted it.
    pub decision: String,
    /// The execution that let it run again by the same decision, such as a reclaim that spared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<ExecutionId>,
    /// When its plan moved to other nodes before it was seen to run, so that its cluster has to be told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_at: Option<Timestamp>,
    /// How many starts by the same decision have failed before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// What its cluster is told, once the admission is confirmed.
    #[serde(default)]
    pub start: Option<StartWorkload>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl WorkloadStart {
    /// Returns the start of a workload that was just admitted by `decision`.
    #[must_use]
    pub fn new(tenant: TenantId, workload: String, decision: String) -> Self {
        Self { tenant, workload, decision, again: None, moved_at: None, tries: 0, start: None }
    }

    /// Returns the next try of a start that failed.
    #[must_use]
    pub fn after(failed: &FailedStart) -> Self {
        let start = Self::new(failed.tenant.clone(), failed.workload.clone(), failed.decision.clone());
        Self { again: Some(failed.execution), tries: failed.tries, ..start }
    }

    /// Returns the key under which the start is asked for once.
    #[must_use]
    pub fn key(&self) -> String {
        match (&self.again, self.moved_at) {
            (None, None) => format!("workload-start/{}", self.decision),
            (Some(again), _) => format!("workload-start/{}/{again}", self.decision),
            (None, Some(moved_at)) => format!("workload-start/{}/moved/{}", self.decision, moved_at.0),
        }
    }
}

impl Workflow for WorkloadStart {
    const NAME: &'static str = "workload_start";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Confirming;
    type State = State;
    type Platform = Platform;

    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        match state {
            // It may have ended, or been evicted and admitted again, since the message was written.
            Confirming => act(ConfirmAdmission {
                tenant: self.tenant.clone(),
                workload: self.workload.clone(),
                decision: self.decision.clone(),
            })
            .nothing_to_undo()
            .record(|me: &mut Self, start: Option<StartWorkload>| me.start = start)
            .then(Choosing),
            Choosing => when(self.start.is_some(), "it is still admitted", Starting)
                .otherwise("it is not admitted by this decision any more", Superseded),
            // One that its cluster does not know yet runs when its owner submits it there: it was never held.
            Starting => act_each(self.start.iter().cloned())
                .nothing_to_undo()
                .within(HOUR)
                .on_failure(codes::OBJECT_MISSING, LeftToOwner)
                .on_failure(codes::UNSUPPORTED, LeftToOwner)
                .or_else(RecordingFailure)
                .then(Started),
            // The sweep `reclaim` tries again, after a pause that grows with each failure.
            RecordingFailure => act(RecordFailedStart {
                tenant: self.tenant.clone(),
                workload: self.workload.clone(),
                decision: Some(self.decision.clone()),
                problem: StartProblem::Failed { tries: self.tries.saturating_add(1) },
            })
            .nothing_to_undo()
            .then(NotStarted),
            Started | LeftToOwner | Superseded => end(Outcome::Completed),
            NotStarted => end(Outcome::RolledBack),
        }
    }

    fn subject(&self) -> Subject {
        let name = format!("workload/{}/{}", self.tenant, self.workload);
        Subject { tenant: self.tenant.to_string(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        Plan {
            title: format!("start {} of tenant {}", self.workload, self.tenant),
            decides: json!({ "start": self.workload, "tenant": self.tenant, "decision": self.decision }),
            placement: json!({ "planned": self.start.as_ref().map(|start| &start.gpus) }),
        }
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}
