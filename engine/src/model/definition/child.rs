//! Executions that another execution starts and waits for.
//!
//! A child is an ordinary execution. A link connects it to its parent: a document that is written when the child
//! starts and when it ends. The parent's slot waits until the link contains the outcome; the same commit wakes the
//! slot. `children/build.rs` has the builder for authors; `children/run.rs` starts, awaits and cancels a child.

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
    /// The parent execution.
    pub execution: ExecutionId,
    /// The state of the parent.
    pub state: String,
    /// [`Execution::states_entered`](crate::Execution::states_entered) at the time.
    #[serde(rename = "entered")]
    pub states_entered: u32,
    /// The slot of that state.
    pub slot: u32,
    /// Counts the children of this slot, from 1: after a failure, a retry by an operator starts another child.
    pub attempt: u32,
}

impl Parent {
    /// Returns the slot of `call`, for its child number `attempt`.
    pub(crate) fn for_slot(call: &Call, attempt: u32) -> Self {
        let (execution, state) = (call.execution, call.state.clone());
        Self { execution, state, states_entered: call.states_entered, slot: call.slot, attempt }
    }

    /// Returns the key of the link. A slot starts one child at a time, even if the start is repeated.
    pub(crate) fn key(&self) -> Key {
        let id = CompositeKey::of(&[
            &self.execution,
            &self.state,
            &self.states_entered,
            &format_args!("{}.{}", self.slot, self.attempt),
        ]);
        Key::new(collection::CHILDREN, id)
    }

    /// Returns the common prefix of the links of all children of the slot of `call`.
    pub(crate) fn prefix(call: &Call) -> String {
        CompositeKey::of(&[
            &call.execution,
            &call.state,
            &call.states_entered,
            &format_args!("{}.", call.slot),
        ])
        .into()
    }

    /// Returns a key that is written whenever an execution starts a child. It guards reads of the list of children.
    pub(crate) fn head(parent: ExecutionId) -> Key {
        Key::new(collection::CHILDREN, parent.to_string())
    }
}

/// The link between an execution and its child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// The child.
    pub execution: ExecutionId,
    /// The workflow of the child.
    pub workflow: String,
    /// The subject of the child.
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
    /// True if the outcome of the child has failed its slot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) failed: bool,
}

impl Child {
    pub(crate) fn to_put(&self) -> Put {
        Put { key: self.parent.key(), body: Some(serde_json::to_vec(self).unwrap_or_default()) }
    }
}

/// The end of a child, as its parent receives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildEnd<T> {
    /// The child.
    pub execution: ExecutionId,
    /// How it ended.
    pub outcome: Outcome,
    /// Where it ended, by the state's name.
    pub state: String,
    /// The data of the child at its end, or the part that [`Children::map_result`](crate::Children::map_result)
    /// selects.
    pub data: T,
}

/// The parent of an execution, and the authority that it passes to the child.
#[derive(Clone, Debug)]
pub(crate) struct ParentLink {
    pub(crate) parent: Parent,
    /// The parent's authorised plan and its authoriser, for children that use the authority of the parent.
    pub(crate) authority: Option<(PlanDigest, Authoriser)>,
}

impl ParentLink {
    /// Returns the authorisation for a child with the plan of `digest`.
    pub(crate) fn authorisation(&self, digest: PlanDigest) -> Option<Authorisation> {
        let (plan, by) = self.authority.clone()?;
        let by = Authoriser::Parent { execution: self.parent.execution, plan, by: Box::new(by) };
        Some(Authorisation { digest, state: String::new(), by })
    }
}

/// A finished child, as its parent sees it.
#[derive(Clone, Debug)]
pub(crate) struct FinishedChild {
    pub(crate) outcome: Outcome,
    pub(crate) cause: Option<ActionError>,
    /// True if effects of the child remain that a cancel does not undo.
    pub(crate) leaves_effects: bool,
    pub(crate) data: Value,
}

/// A child to be started, with its types erased.
pub(crate) trait ErasedChild: Debug + Send + Sync {
    fn workflow(&self) -> &'static str;
    fn schema(&self) -> u32;
    /// Returns true if the child uses the authority of its parent.
    fn uses_parent_authority(&self) -> bool;
    fn data(&self) -> Value;
    fn plan(&self) -> Plan;
    /// Returns the result of the slot for a child that has ended.
    fn slot_result(&self, id: ExecutionId, state: &str, ended: FinishedChild) -> Result<Value, ActionError>;
}

/// Returns the output of the undo of a started child.
pub(crate) fn cancel_result(child: &Child, ended: &FinishedChild) -> Value {
    json!({ "child": child.execution, "outcome": ended.outcome, "kept": ended.leaves_effects })
}

/// Returns true if the output of the undo says that effects of the child remain.
pub(crate) fn is_kept_after_cancel(answer: &Value) -> bool {
    answer.get("kept").and_then(Value::as_bool).unwrap_or_default()
}
