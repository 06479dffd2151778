//! A workflow with its type erased, as the engine calls it.
//!
//! Implemented by `runtime/adapter`; used by the registry and by steps that start children. Invariant: no method has
//! side effects; the caller commits what it returns.

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

/// An execution, for display.
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionView {
    /// The state, phase, trail and other fields of the engine, and the workflow's data, as stored.
    pub body: Value,
    /// The plan for the current data.
    pub plan: Plan,
    /// The digest of the plan; empty if only another version of the software can read it.
    pub digest: PlanDigest,
    /// The children, in the order of its slots.
    pub children: Vec<Child>,
}

/// The authority of a parent, for its children.
#[derive(Debug)]
pub(crate) struct ParentAuthority {
    /// The plan, and its digest.
    pub(crate) plan: Arc<(Plan, PlanDigest)>,
    pub(crate) authoriser: Option<Authoriser>,
    /// The origin of the requester's credential.
    pub(crate) requester: Option<Provenance>,
}

/// The input from outside that an execution waits for.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) enum AwaitedInput {
    /// The approvers at this stage of the approval.
    People {
        visit: u32,
        stage: usize,
    },
    Signal(&'static str),
    Nothing,
}

/// The use of break-glass.
#[derive(Debug)]
pub(crate) struct BreakGlassUse {
    pub(crate) approval: String,
    pub(crate) by: String,
    pub(crate) reason: String,
}

/// Everything that a transition commits.
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
    /// The use of break-glass, if this event was one.
    pub(crate) break_glass: Option<BreakGlassUse>,
    /// The outcome, if this event finished it.
    pub(crate) finished: Option<Outcome>,
    /// True if this event finished the execution before its promised end, false if after it. `None` without a
    /// promise.
    pub(crate) met_promise: Option<bool>,
    /// The ruling, if this event ended an approval.
    pub(crate) ruled: Option<Ruling>,
    /// The parent, if another execution started this one.
    pub(crate) parent: Option<Parent>,
}

pub(crate) trait ErasedWorkflow<P>: Send + Sync {
    fn diagram(&self) -> Diagram;
    /// Returns the schema that it writes.
    fn schema(&self) -> u32;
    /// Upgrades a record of an earlier schema. Returns `None` if it is current.
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
    /// Returns how a finished execution ended, or `None` while it is open.
    fn finished_child(&self, record: &Record) -> Result<Option<FinishedChild>, Error>;
    /// Returns the signal that the execution waits for now.
    fn awaited_signal(&self, record: &Record) -> Result<Option<&'static str>, Error>;
    #[cfg(feature = "testing")]
    fn awaited_input(&self, record: &Record) -> Result<AwaitedInput, Error>;
}
