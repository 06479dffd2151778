//! The start of an admitted workload in its cluster.
//!
//! The commit that admits a workload requests this execution, so every admission has exactly one start. It shares its guard with the eviction of the same
//! workload: an earlier admission never starts an evicted workload. The page is `docs/workflows/workload_start.md`.

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

/// The actor of the start of an admitted workload.
pub const SYSTEM_ACTOR: &str = "tenure";

/// The state of a start. Persisted by name.
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

/// The workload and its admission. Persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadStart {
    /// The tenant.
    pub tenant: TenantId,
    /// The name.
    pub workload: String,
    /// The decision that admitted it.
    pub decision: String,
    /// The execution that let it run again by the same decision, such as a reclaim that spared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<ExecutionId>,
    /// When its plan moved to other nodes before it was observed running, so that its cluster needs a new command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_at: Option<Timestamp>,
    /// The number of earlier failed starts by the same decision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// The start command for its cluster, once the admission is confirmed.
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

    /// Returns the next attempt of a failed start.
    #[must_use]
    pub fn after(failed: &FailedStart) -> Self {
        let start = Self::new(failed.tenant.clone(), failed.workload.clone(), failed.decision.clone());
        Self { again: Some(failed.execution), tries: failed.tries, ..start }
    }

    /// Returns the key under which the start is requested only once.
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
            Choosing => when(self.start.is_some(), "the admission is still valid", Starting)
                .otherwise("the admission is not valid any more", Superseded),
            // A workload that its cluster does not know yet was never held there. It runs when its owner submits it.
            Starting => act_each(self.start.iter().cloned())
                .nothing_to_undo()
                .within(HOUR)
                .on_failure(codes::OBJECT_MISSING, LeftToOwner)
                .on_failure(codes::UNSUPPORTED, LeftToOwner)
                .or_else(RecordingFailure)
                .then(Started),
            // The sweep `reclaim` retries, after a pause that grows with each failure.
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
