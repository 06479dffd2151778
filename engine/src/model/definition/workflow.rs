//! The author's view: a struct, an enum of states, and one pure function from state to step.

use crate::{MadeRepair, Plan, Step};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::fmt::Debug;
use store::Timestamp;
use strum::VariantArray;

/// The states of a workflow: a plain enum that derives `IntoStaticStr` and `VariantArray`. Persisted by name.
pub trait StateSet: Copy + Eq + Debug + Into<&'static str> + VariantArray + Send + Sync + 'static {}
impl<T> StateSet for T where T: Copy + Eq + Debug + Into<&'static str> + VariantArray + Send + Sync + 'static {}

/// What an execution is about, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The tenant that sees it; empty for the platform's own.
    pub tenant: String,
    /// The thing, such as `tenant/acme`.
    pub name: String,
    /// While the execution is open, no other may hold the same guard; for example `lifecycle of tenant/acme`.
    pub guard: Option<String>,
}

/// A stored body that this version cannot turn into its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no upgrade from schema {from}: {why}")]
pub struct UpgradeError {
    /// The schema found.
    pub from: u32,
    /// What is missing.
    pub why: String,
}

/// A durable state machine. The value holds the request and what has been learnt while serving it; it is persisted, so
/// field and state names are its schema.
pub trait Workflow: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Names it in records, lists and diagrams.
    const NAME: &'static str;
    /// Counts the shapes of its persisted data.
    const SCHEMA: u32;
    /// Where an execution begins.
    const INITIAL: Self::State;
    /// Where it may stand.
    type State: StateSet;
    /// What its actions act on.
    type Platform: Send + Sync + 'static;
    /// It runs as a child alone, and passes its point of no return on the authority of its parent, whose plan must
    /// [cover](Plan::covers) its own. It needs no approval and no waiver; [`Engine::start`](crate::Engine::start) refuses it,
    /// and so does the check of a parent that would start it before people, or a waiver, have agreed. Where it destroys
    /// data, people must have.
    const AUTHORISED_BY_PARENT: bool = false;
    /// The fields of the data that a repair may edit; `None` for every field. A workflow whose data holds what its actions
    /// observed names the fields of the request here, so that no operator can state an observation by an edit.
    const EDITABLE: Option<&'static [&'static str]> = None;

    /// What is done in `state`. Pure; an exhaustive `match` without a wildcard.
    fn step(&self, state: Self::State) -> Step<Self>;

    /// What it is about.
    fn subject(&self) -> Subject;

    /// What will be done, for those who decide on it.
    fn plan(&self) -> Plan;

    /// When it should be over, where somebody was promised that. One that is still open then goes on as before and is on the
    /// list of what is stuck as [`overdue`](crate::Reason::Overdue), until it ends or the promise is moved. Read after every
    /// event; a moment in the past counts at once.
    fn promised_by(&self) -> Option<Timestamp> {
        None
    }

    /// Takes note of a repair, in the commit with which the repair takes effect. A workflow whose result tells of repairs keeps
    /// them in its data. Must not change the plan.
    fn note_repair(&mut self, repair: MadeRepair) {
        drop(repair);
    }

    /// Values that between them show every action of [`Workflow::step`], for the static check, the diagram and the sweeps.
    fn examples() -> Vec<Self>;

    /// Turns a body of an earlier schema into one of this.
    ///
    /// # Errors
    /// When `from` is unknown or the body is not of that schema.
    fn upgrade(from: u32, body: Value) -> Result<Value, UpgradeError> {
        let _ = body;
        Err(UpgradeError { from, why: format!("this version reads schema {}", Self::SCHEMA) })
    }
}
