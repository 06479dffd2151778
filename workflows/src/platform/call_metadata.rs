//! The metadata of every call to a platform, and the state of objects found there.

use super::codes;
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use store::Epoch;

/// How long a target may take to answer one call before the outcome counts as unknown: 30 s, the shortest timeout of a creating step.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The delay before a pending object is read again.
pub const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The metadata of one call. The target compares and stores it.
#[derive(Clone, Debug)]
pub struct CallMetadata {
    /// The action's name, for the audit.
    pub action: &'static str,
    /// The step that makes the call. It is the same for an action and its undo, and created objects are marked with it.
    pub step: String,
    /// The idempotency key. It is the same on every attempt, and different for the undo and for each part of an action.
    pub key: String,
    /// The fencing token. A call with a smaller token than an earlier call of the same step is rejected.
    pub epoch: Epoch,
    /// True for a compensation.
    pub undo: bool,
    /// How long the target may take to answer.
    pub deadline: Duration,
    /// If true, the target changes nothing and answers as if it had. It does not store the key, so a later call may use the same key.
    pub dry_run: bool,
}

impl CallMetadata {
    /// Returns the metadata of `action` in the context of `call`.
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

    /// Returns the same metadata for a dry run.
    #[must_use]
    pub fn as_dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    /// Returns the metadata for one part of an action that creates several objects. Each part has its own key and takes effect once.
    #[must_use]
    pub fn for_part(&self, part: &str) -> Self {
        Self { key: format!("{}#{part}", self.key), ..self.clone() }
    }
}

/// An object as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundObject {
    /// Distinguishes the object from earlier or later ones of the same name.
    pub uid: String,
    /// The tenant in the object's own mark.
    pub tenant: String,
    /// The step that created it, by the object's own mark.
    pub step: String,
    /// The object's spec.
    pub spec: Value,
    /// True while it is being deleted and still exists.
    pub terminating: bool,
}

impl FoundObject {
    /// Returns true if a removal may delete the object. A compensation deletes only an object of its own step. A removal step deletes every object of
    /// the tenant.
    #[must_use]
    pub fn may_be_removed(&self, tenant: &str, stamp: &CallMetadata) -> bool {
        self.tenant == tenant && (!stamp.undo || self.step == stamp.step)
    }
}

/// Result of a creating action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedObject {
    /// The object's deterministic name.
    pub name: String,
    /// The object's UID, recorded as evidence. The undo reads it again by name.
    pub uid: String,
}

/// Result of a removing action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// The object was observed to be absent.
    Gone,
    /// An object of that name belongs to another tenant or step. It was left unchanged.
    Left {
        /// The object's name.
        name: String,
        /// The tenant in its mark.
        tenant: String,
    },
}

impl Removal {
    /// Reports an object of another tenant or step in the log, for operators.
    pub(super) fn left(name: &str, found: &FoundObject, stamp: &CallMetadata) -> Self {
        tracing::warn!(
            name,
            owner = found.tenant,
            made_by = found.step,
            step = stamp.step,
            "an object of this name was not created by this step, so it was not changed"
        );
        Self::Left { name: name.to_owned(), tenant: found.tenant.clone() }
    }
}

/// Returns the error for a pending object.
pub(super) fn look_again(code: &str) -> ActionError {
    ActionError::pending(code, LOOK_AGAIN)
}

/// Converts a failed read into an unknown outcome, after a request that must not be repeated blindly.
pub(super) fn outcome_unknown(error: ActionError) -> ActionError {
    ActionError::unknown(codes::NO_ANSWER, error)
}
