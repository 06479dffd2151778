//! The interface for authors: a struct, an enum of states, and one pure function from state to step.

use crate::{MadeRepair, Plan, Step};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::fmt::Debug;
use store::Timestamp;
use strum::VariantArray;

/// The states of a workflow: a plain enum that derives `IntoStaticStr` and `VariantArray`. Persisted by name.
pub trait StateSet: Copy + Eq + Debug + Into<&'static str> + VariantArray + Send + Sync + 'static {}
impl<T> StateSet for T where T: Copy + Eq + Debug + Into<&'static str> + VariantArray + Send + Sync + 'static {}

/// The subject of an execution, and its tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The tenant that can see it; empty for the platform itself.
    pub tenant: String,
    /// The object, such as `tenant/acme`.
    pub name: String,
    /// While the execution is open, no other may hold the same guard; for example `lifecycle of tenant/acme`.
    pub guard: Option<String>,
}

/// A stored body that this version cannot upgrade.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no upgrade from schema {from}: {why}")]
pub struct UpgradeError {
    /// The schema found.
    pub from: u32,
    /// The reason.
    pub why: String,
}

/// A durable state machine. The value holds the request and the results of its actions. It is persisted, so the names
/// of its fields and states are its schema.
pub trait Workflow: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name in records, lists and diagrams.
    const NAME: &'static str;
    /// The version of its persisted data.
    const SCHEMA: u32;
    /// The initial state.
    const INITIAL: Self::State;
    /// Its states.
    type State: StateSet;
    /// The platform that its actions run on.
    type Platform: Send + Sync + 'static;
    /// True for a workflow that runs only as a child, and passes its pivot on the authority of its parent. The
    /// parent's plan must [cover](Plan::covers) its plan. It needs no approval and no waiver.
    /// [`Engine::start`](crate::Engine::start) refuses it, and the static check refuses a parent that can start it
    /// before an approval or a waiver. If it destroys data, only an approval suffices.
    const AUTHORISED_BY_PARENT: bool = false;
    /// The fields of the data that a repair may edit; `None` for every field. A workflow whose data holds
    /// observations lists only the fields of the request, so that a repair cannot state an observation.
    const EDITABLE: Option<&'static [&'static str]> = None;

    /// Returns the step of `state`. Pure; an exhaustive `match` without a wildcard.
    fn step(&self, state: Self::State) -> Step<Self>;

    /// Returns the subject.
    fn subject(&self) -> Subject;

    /// Returns the plan that approvers decide on.
    fn plan(&self) -> Plan;

    /// Returns the promised end of the execution, if there is one. An execution that is still open then continues,
    /// and is listed as stuck with [`overdue`](crate::Reason::Overdue) until it ends or the promise moves. Read after
    /// every event; a moment in the past counts at once.
    fn promised_by(&self) -> Option<Timestamp> {
        None
    }

    /// Records a repair, in the commit with which the repair takes effect. Workflows whose result reports repairs
    /// store them in their data. Must not change the plan.
    fn note_repair(&mut self, repair: MadeRepair) {
        drop(repair);
    }

    /// Returns values that together show every action of [`Workflow::step`], for the static check, the diagram and
    /// the sweeps.
    fn examples() -> Vec<Self>;

    /// Converts a stored body of an earlier schema to the current one.
    ///
    /// # Errors
    /// Returns an error if `from` is unknown or the body does not match that schema.
    fn upgrade(from: u32, body: Value) -> Result<Value, UpgradeError> {
        let _ = body;
        Err(UpgradeError { from, why: format!("this version reads schema {}", Self::SCHEMA) })
    }
}
