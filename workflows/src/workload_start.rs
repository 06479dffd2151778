//! The start of an admitted workload in its cluster.
//!
//! The commit that admits a workload asks for this execution, so there is no admission without a start and no start without an
//! admission. It shares its guard with the eviction of the same workload: an evicted workload is never started by an older admission.
//! The page is `docs/workflows/workload_start.md`.

mod examples;
mod ledger;

pub use ledger::{ConfirmAdmission, start_command};

use crate::{
    platform::{Platform, StartWorkload, codes},
    tenancy::TenantId,
};
use engine::{HOUR, Outcome, Plan, Step, Subject, Workflow, act, act_each, end, when};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::ExecutionId;

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
    /// What its cluster is told, once the admission is confirmed.
    #[serde(default)]
    pub start: Option<StartWorkload>,
}

impl WorkloadStart {
    /// Returns the start of a workload that was just admitted by `decision`.
    #[must_use]
    pub fn new(tenant: TenantId, workload: String, decision: String) -> Self {
        Self { tenant, workload, decision, again: None, start: None }
    }

    /// Returns the key under which the start is asked for once.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.again {
            None => format!("workload-start/{}", self.decision),
            Some(again) => format!("workload-start/{}/{again}", self.decision),
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
                .or_else(NotStarted)
                .then(Started),
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
