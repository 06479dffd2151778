//! The definition of a child, before its type is erased.
//!
//! Built by [`children`](crate::children()).

use crate::{
    ActionError, ChildEnd, ErasedAction, Outcome, Plan, Repeat, ResultSource, Workflow,
    model::definition::{
        child::{CANCEL, ErasedChild, FinishedChild},
        erased_action::{ErasedActionKind, encode},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    fmt::{self, Debug},
    sync::Arc,
};
use store::ExecutionId;

pub(crate) struct ChildSpec<C, T> {
    pub(crate) child: C,
    pub(crate) any_end: bool,
    pub(crate) answer: fn(&C) -> T,
}

impl<C: Debug, T> Debug for ChildSpec<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.child.fmt(f)
    }
}

impl<C: Workflow, T: Serialize + DeserializeOwned + 'static> ErasedChild for ChildSpec<C, T> {
    fn workflow(&self) -> &'static str {
        C::NAME
    }
    fn schema(&self) -> u32 {
        C::SCHEMA
    }
    fn uses_parent_authority(&self) -> bool {
        C::AUTHORISED_BY_PARENT
    }
    fn data(&self) -> Value {
        serde_json::to_value(&self.child).unwrap_or(Value::Null)
    }
    fn plan(&self) -> Plan {
        self.child.plan()
    }

    fn slot_result(&self, id: ExecutionId, state: &str, ended: FinishedChild) -> Result<Value, ActionError> {
        let FinishedChild { outcome, cause, data, .. } = ended;
        if outcome != Outcome::Completed && !self.any_end {
            let why = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            let ended: &str = outcome.into();
            let message = format!("{} {id} ended {ended} in {state}{why}", C::NAME);
            return Err(ActionError::permanent(failure_code(outcome), message));
        }
        let child: C =
            serde_json::from_value(data).map_err(|e| ActionError::permanent("child.unreadable", e))?;
        encode(&ChildEnd { execution: id, outcome, state: state.to_owned(), data: (self.answer)(&child) })
    }
}

/// Returns the error code of a slot whose child ended as `outcome`.
fn failure_code(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "child.completed",
        Outcome::Rejected => "child.rejected",
        Outcome::Refused => "child.refused",
        Outcome::Expired => "child.expired",
        Outcome::RolledBack => "child.rolled_back",
        Outcome::Cancelled => "child.cancelled",
        Outcome::Terminated => "child.terminated",
    }
}

impl<P> ErasedAction<P> {
    /// Starts a child and waits for its end.
    pub(crate) fn starting<C: Workflow<Platform = P>, T>(offspring: ChildSpec<C, T>) -> Self
    where
        T: Serialize + DeserializeOwned + 'static,
    {
        let arguments = child_arguments(C::NAME, &offspring.child.subject().name);
        let kind = ErasedActionKind::Child(Arc::new(offspring));
        Self::unprotected(C::NAME, arguments, kind)
    }

    /// Cancels the child of the same slot, if there is one, and waits for its end.
    pub(crate) fn cancelling(arguments: Value) -> Self {
        let kind = ErasedActionKind::CancelChild;
        Self::unprotected(CANCEL, arguments, kind)
    }

    fn unprotected(name: &'static str, arguments: Value, kind: ErasedActionKind<P>) -> Self {
        let (repeat, result, protects) = (Repeat::Safe, ResultSource::Decision, false);
        Self { name, type_id: None, arguments, repeat, result, protects, keys: Vec::new(), kind }
    }
}

pub(crate) fn child_arguments(workflow: &str, subject: &str) -> Value {
    json!({ "workflow": workflow, "subject": subject })
}
