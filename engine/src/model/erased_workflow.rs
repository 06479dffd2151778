//! A workflow with its type erased, as the engine calls it.
//!
//! Implemented by `runtime/adapter`; held by the registry and by steps that start children. Invariant: no method
//! changes anything; what is to be committed is returned.

use super::input::VersionedInput;
use crate::{
    Authoriser, Child, Diagram, Edge, Error, Event, Outcome, Parent, Person, Plan, PlanDigest, Provenance,
    Ruling, TaskRef,
    model::{
        definition::child::{FinishedChild, ParentLink},
        execution::directive::Directive,
    },
};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use store::{Entry, ExecutionId, Put, Record, Task, TaskId, Timestamp};

/// An execution as people see it.
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionView {
    /// The state, phase, trail and all else the engine keeps, and the workflow's data, as stored.
    pub body: Value,
    /// The plan as the data stands.
    pub plan: Plan,
    /// Its digest; empty where the plan is not known, because only another version of the software can read it.
    pub digest: PlanDigest,
    /// What it has started, in the order of its slots.
    pub children: Vec<Child>,
}

/// An execution as one that it starts looks at it.
#[derive(Debug)]
pub(crate) struct ParentAuthority {
    /// Its plan, and the plan's digest.
    pub(crate) plan: Arc<(Plan, PlanDigest)>,
    pub(crate) authoriser: Option<Authoriser>,
    /// Where the credential came from by which it was asked for.
    pub(crate) requester: Option<Provenance>,
}

/// What an execution waits for that does not come from the engine.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) enum AwaitedInput {
    /// Those whom the approval of this visit asks at this stage.
    People {
        visit: u32,
        stage: usize,
    },
    Signal(&'static str),
    Nothing,
}

/// A decision that one person took alone.
#[derive(Debug)]
pub(crate) struct BreakGlassUse {
    pub(crate) approval: String,
    pub(crate) by: String,
    pub(crate) reason: String,
}

/// All that a transition asks the store to commit.
#[derive(Debug)]
pub(crate) struct TransitionCommit {
    pub(crate) record: Record,
    pub(crate) journal: Vec<Entry>,
    pub(crate) schedule: Vec<Task>,
    pub(crate) retire: Vec<TaskId>,
    pub(crate) documents: Vec<Put>,
    pub(crate) edges: Vec<Edge>,
    /// The reason code, if this event parked the execution.
    pub(crate) parked: Option<&'static str>,
    /// Who decided alone by this event, if anybody did.
    pub(crate) break_glass: Option<BreakGlassUse>,
    /// The outcome, if this event finished it.
    pub(crate) finished: Option<Outcome>,
    /// Whether it is over by when that was promised, if it was and this event finished it.
    pub(crate) met_promise: Option<bool>,
    /// How an approval ended by this event, if one did.
    pub(crate) ruled: Option<Ruling>,
    /// What started it, if another execution did.
    pub(crate) parent: Option<Parent>,
}

pub(crate) trait ErasedWorkflow<P>: Send + Sync {
    fn diagram(&self) -> Diagram;
    /// The schema that it writes.
    fn schema(&self) -> u32;
    /// An execution of an earlier schema as it is written now; `None` if it is so already.
    fn upgrade(&self, record: &Record, at: Timestamp) -> Result<Option<Record>, Error>;
    fn open(
        &self,
        id: ExecutionId,
        given: VersionedInput,
        by: &Person,
        at: Timestamp,
        of: Option<ParentLink>,
    ) -> Result<TransitionCommit, Error>;
    fn advance(&self, record: &Record, event: Event, at: Timestamp) -> Result<TransitionCommit, Error>;
    fn directive(&self, record: &Record, ticket: TaskRef) -> Result<Directive<P>, Error>;
    fn show(&self, record: &Record) -> Result<ExecutionView, Error>;
    fn parent_authority(&self, record: &Record) -> Result<ParentAuthority, Error>;
    /// How a finished execution ended; `None` while it is open.
    fn finished_child(&self, record: &Record) -> Result<Option<FinishedChild>, Error>;
    /// The signal that an execution waits for as it stands; `None` while it waits for none.
    fn awaited_signal(&self, record: &Record) -> Result<Option<&'static str>, Error>;
    #[cfg(feature = "testing")]
    fn awaited_input(&self, record: &Record) -> Result<AwaitedInput, Error>;
}
