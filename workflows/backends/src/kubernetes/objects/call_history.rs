//! The calls that changed an object, stored on the object to detect late calls.
//!
//! The history is an annotation and is written together with the change, under the same condition. It is deleted with
//! its object: after a deletion, only the lease stops a late call.

use crate::kubernetes::labels::annotation;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflows::platform::{CallMetadata, codes};

/// The number of steps that an object remembers. Older steps have ended long ago.
const REMEMBERED: usize = 16;

/// The last call of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedCall {
    step: String,
    epoch: u64,
    /// The keys that took effect with this epoch, of the step and of its undo.
    keys: Vec<String>,
}

/// The recorded calls of an object, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::kubernetes) struct CallHistory(Vec<RecordedCall>);

/// The recorded outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kubernetes) enum PastCall {
    /// Not recorded.
    New,
    /// The call took effect.
    Done,
}

impl CallHistory {
    /// Reads the history from the annotation `key`.
    ///
    /// # Errors
    ///
    /// `platform.unreadable` (permanent) if others changed the annotation.
    pub(in crate::kubernetes) fn of(object: &Value, key: &str) -> Result<Self, ActionError> {
        let Some(text) = annotation(object, key) else { return Ok(Self::default()) };
        let read = serde_json::from_str(text).map(Self);
        read.map_err(|e| {
            let why = format!("annotation {key} was changed by another client ({e}); remove it, then retry");
            ActionError::permanent(codes::UNREADABLE, why)
        })
    }

    /// Checks if the call already took effect.
    ///
    /// # Errors
    ///
    /// `call.fenced` (permanent) if the step has acted with a newer epoch.
    pub(in crate::kubernetes) fn check(
        &self,
        stamp: &CallMetadata,
        name: &str,
    ) -> Result<PastCall, ActionError> {
        let Some(seen) = self.0.iter().find(|seen| seen.step == stamp.step) else { return Ok(PastCall::New) };
        if stamp.epoch.0 < seen.epoch {
            let why = format!(
                "{name}: step {} has acted with epoch {}, but the call has epoch {}",
                stamp.step, seen.epoch, stamp.epoch.0
            );
            return Err(ActionError::permanent(codes::FENCED, why));
        }
        Ok(if seen.keys.contains(&stamp.key) { PastCall::Done } else { PastCall::New })
    }

    /// Returns true if the call has a newer epoch than the recorded one of its step.
    pub(in crate::kubernetes) fn is_newer(&self, stamp: &CallMetadata) -> bool {
        self.0.iter().any(|seen| seen.step == stamp.step && seen.epoch < stamp.epoch.0)
    }

    /// Returns the annotation's value after the call has taken effect.
    pub(in crate::kubernetes) fn with(mut self, stamp: &CallMetadata) -> String {
        let at = self.0.iter().position(|seen| seen.step == stamp.step);
        let mut seen = match at {
            Some(at) => self.0.remove(at),
            None => RecordedCall { step: stamp.step.clone(), epoch: stamp.epoch.0, keys: Vec::new() },
        };
        seen.epoch = seen.epoch.max(stamp.epoch.0);
        if !seen.keys.contains(&stamp.key) {
            seen.keys.push(stamp.key.clone());
        }
        self.0.push(seen);
        let surplus = self.0.len().saturating_sub(REMEMBERED);
        serde_json::to_string(&self.0.split_off(surplus)).unwrap_or_default()
    }
}
