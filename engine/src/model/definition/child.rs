//! Executions that another execution starts and waits for.
//!
//! A child is an execution like any other; what makes it a child is a link, a document that is written with its start
//! and with its end. The parent's slot waits until the link says how it ended, and is woken by the commit that says so.
//! The builder for authors is `children/build.rs`; `children/run.rs` starts, awaits and cancels a child.

use crate::{
    ActionError, Authorisation, Authoriser, Call, Outcome, Plan, PlanDigest, model::documents::collection,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Debug;
use store::{CompositeKey, ExecutionId, Key, Put, TaskId, Timestamp};

/// The name of every undo that cancels a child. The static check refuses it as the name of an action.
pub(crate) const CANCEL: &str = "cancel child";

/// The slot that started an execution, and that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Whose slot it is.
    pub execution: ExecutionId,
    /// In which state.
    pub state: String,
    /// [`Execution::states_entered`](crate::Execution::states_entered) at the time.
    #[serde(rename = "entered")]
    pub states_entered: u32,
    /// Which of the state's slots.
    pub slot: u32,
    /// Counts the children of this slot, from 1: one that failed is followed by another when an operator asks for a retry.
    pub attempt: u32,
}

impl Parent {
    /// The slot of `call`, about to start its child number `attempt`.
    pub(crate) fn for_slot(call: &Call, attempt: u32) -> Self {
        let (execution, state) = (call.execution, call.state.clone());
        Self { execution, state, states_entered: call.states_entered, slot: call.slot, attempt }
    }

    /// Names the child: a slot starts one at a time, however often it is asked to.
    pub(crate) fn key(&self) -> Key {
        let id = CompositeKey::of(&[
            &self.execution,
            &self.state,
            &self.states_entered,
            &format_args!("{}.{}", self.slot, self.attempt),
        ]);
        Key::new(collection::CHILDREN, id)
    }

    /// What the names of all children of the slot of `call` begin with.
    pub(crate) fn prefix(call: &Call) -> String {
        CompositeKey::of(&[
            &call.execution,
            &call.state,
            &call.states_entered,
            &format_args!("{}.", call.slot),
        ])
        .into()
    }

    /// Rewritten whenever an execution starts a child, so that a list of its children can be relied on.
    pub(crate) fn head(parent: ExecutionId) -> Key {
        Key::new(collection::CHILDREN, parent.to_string())
    }
}

/// The link between an execution and one that it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// The child.
    pub execution: ExecutionId,
    /// What it runs.
    pub workflow: String,
    /// What it is about.
    pub subject: String,
    /// The slot that started it.
    pub parent: Parent,
    /// When it was started.
    pub started_at: Timestamp,
    /// How it ended; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The task of the parent that waits for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waiter: Option<TaskId>,
    /// Its slot has failed for the way it ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) failed: bool,
}

impl Child {
    pub(crate) fn to_put(&self) -> Put {
        Put { key: self.parent.key(), body: Some(serde_json::to_vec(self).unwrap_or_default()) }
    }
}

/// How a child ended, as its parent learns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildEnd<T> {
    /// The child.
    pub execution: ExecutionId,
    /// How it ended.
    pub outcome: Outcome,
    /// Where it ended, by the state's name.
    pub state: String,
    /// What it had learnt by then: its data, or what [`Children::map_result`](crate::Children::map_result) takes of them.
    pub data: T,
}

/// Whose child an execution is, and on whose authority it may pass its point of no return.
#[derive(Clone, Debug)]
pub(crate) struct ParentLink {
    pub(crate) parent: Parent,
    /// What authorised the parent, and which plan of it: given to children that go by it.
    pub(crate) authority: Option<(PlanDigest, Authoriser)>,
}

impl ParentLink {
    /// What a child with the plan of `digest` may rest on.
    pub(crate) fn authorisation(&self, digest: PlanDigest) -> Option<Authorisation> {
        let (plan, by) = self.authority.clone()?;
        let by = Authoriser::Parent { execution: self.parent.execution, plan, by: Box::new(by) };
        Some(Authorisation { digest, state: String::new(), by })
    }
}

/// A finished execution, as its parent looks at it.
#[derive(Clone, Debug)]
pub(crate) struct FinishedChild {
    pub(crate) outcome: Outcome,
    pub(crate) cause: Option<ActionError>,
    /// Something of it stands, and cannot be taken back by cancelling it.
    pub(crate) leaves_effects: bool,
    pub(crate) data: Value,
}

/// A child to be started, with its types forgotten.
pub(crate) trait ErasedChild: Debug + Send + Sync {
    fn workflow(&self) -> &'static str;
    fn schema(&self) -> u32;
    /// It goes by the authority of its parent.
    fn uses_parent_authority(&self) -> bool;
    fn data(&self) -> Value;
    fn plan(&self) -> Plan;
    /// What becomes of the slot when the child has ended.
    fn slot_result(&self, id: ExecutionId, state: &str, ended: FinishedChild) -> Result<Value, ActionError>;
}

/// What the undo of a child that was started answers.
pub(crate) fn cancel_result(child: &Child, ended: &FinishedChild) -> Value {
    json!({ "child": child.execution, "outcome": ended.outcome, "kept": ended.leaves_effects })
}

/// Whether the undo answered that its child could not be taken back.
pub(crate) fn is_kept_after_cancel(answer: &Value) -> bool {
    answer.get("kept").and_then(Value::as_bool).unwrap_or_default()
}
