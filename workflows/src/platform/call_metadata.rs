//! What every call carries, and what is known of an object found.

use super::codes;
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use store::Epoch;

/// How long a target has to answer one call before the outcome counts as unknown. Default 30 s, the limit of the
/// shortest creating step in the domain's table.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How soon to look again at something that is on its way.
pub const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The circumstances of one call, for the target to compare and to remember.
#[derive(Clone, Debug)]
pub struct CallMetadata {
    /// The action's name, for audit.
    pub action: &'static str,
    /// The step on whose behalf: the same for an action and its undo. What is made carries it.
    pub step: String,
    /// The idempotency key: the same on every attempt, another for the undo and for each part of an action.
    pub key: String,
    /// The fencing token: of two calls for one step, the one with the smaller token is late and is refused.
    pub epoch: Epoch,
    /// True when a compensation is run.
    pub undo: bool,
    /// How long the target has to answer.
    pub deadline: Duration,
    /// True when nothing may change: the target answers as if it had done what is asked, and does not. Such a call is
    /// remembered by nobody; the same key may come in earnest later.
    pub dry_run: bool,
}

impl CallMetadata {
    /// The stamp of `action` in the circumstances of `call`.
    #[must_use]
    pub fn for_action<A: Action>(_action: &A, call: &Call) -> Self {
        let key = call.key();
        let step = if call.undo { key.strip_suffix("/undo").unwrap_or(&key) } else { &key };
        Self {
            action: A::NAME,
            step: step.to_owned(),
            key: key.clone(),
            epoch: call.epoch,
            undo: call.undo,
            deadline: ANSWER_WITHIN,
            dry_run: false,
        }
    }

    /// The same, of a call that changes nothing and is answered as if it had.
    #[must_use]
    pub fn as_dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    /// The stamp of one part of an action that makes several things: each part has its own key, and takes effect once.
    #[must_use]
    pub fn for_part(&self, part: &str) -> Self {
        Self { key: format!("{}#{part}", self.key), ..self.clone() }
    }
}

/// An object as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundObject {
    /// Tells it from an earlier or later object of the same name.
    pub uid: String,
    /// Whose it says it is.
    pub tenant: String,
    /// The step that made it, by its own mark.
    pub step: String,
    /// What it asks for.
    pub spec: Value,
    /// True while it is being deleted and still holds what it held.
    pub terminating: bool,
}

impl FoundObject {
    /// Whether a removal may take it. A compensation takes only what its own step made; a removal that is a step of
    /// its own takes whatever is the tenant's.
    #[must_use]
    pub fn may_be_removed(&self, tenant: &str, stamp: &CallMetadata) -> bool {
        self.tenant == tenant && (!stamp.undo || self.step == stamp.step)
    }
}

/// What a creating action learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedObject {
    /// Its deterministic name.
    pub name: String,
    /// Its identity, kept as evidence; undo looks it up again by name.
    pub uid: String,
}

/// What a removing action learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// It was observed to be absent, not merely asked to go.
    Gone,
    /// An object of that name is there and is not ours: it was left as it is.
    Left {
        /// What was left.
        name: String,
        /// Whose mark it bears.
        tenant: String,
    },
}

impl Removal {
    /// The report on an object that is not ours, which operators should read.
    pub(super) fn left(name: &str, found: &FoundObject, stamp: &CallMetadata) -> Self {
        tracing::warn!(
            name,
            owner = found.tenant,
            made_by = found.step,
            step = stamp.step,
            "an object of this name was not made by this step: it was left as it is"
        );
        Self::Left { name: name.to_owned(), tenant: found.tenant.clone() }
    }
}

/// The error for something that is on its way.
pub(super) fn look_again(code: &str) -> ActionError {
    ActionError::pending(code, LOOK_AGAIN)
}

/// Once something was sent that must not be sent twice blindly, a failure to look at it leaves the outcome unknown.
pub(super) fn outcome_unknown(error: ActionError) -> ActionError {
    ActionError::unknown(codes::NO_ANSWER, error)
}
