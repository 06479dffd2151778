//! What an object remembers of the calls that changed it, so that a late one can be told from the newest.
//!
//! The memory is an annotation and is written with the change itself, under the same condition. It goes with its object: a call
//! that comes after a deletion is stopped by nothing but the lease.

use crate::kubernetes::labels::annotation;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflows::platform::{CallMetadata, codes};

/// How many calls an object remembers. A step that changed it so many steps ago has ended long since.
const REMEMBERED: usize = 16;

/// The last call of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedCall {
    step: String,
    epoch: u64,
    /// The keys that took effect under it, of the step and of its undo.
    keys: Vec<String>,
}

/// The calls that an object has seen, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::kubernetes) struct CallHistory(Vec<RecordedCall>);

/// What an object knows of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kubernetes) enum PastCall {
    /// Nothing.
    New,
    /// It took effect.
    Done,
}

impl CallHistory {
    /// What the annotation of this name says.
    ///
    /// # Errors
    /// `platform.unreadable`, permanent, when somebody else wrote it.
    pub(in crate::kubernetes) fn of(object: &Value, key: &str) -> Result<Self, ActionError> {
        let Some(text) = annotation(object, key) else { return Ok(Self::default()) };
        let read = serde_json::from_str(text).map(Self);
        read.map_err(|e| {
            let why = format!("annotation {key}: it is not what Tenure wrote ({e}); remove it, then retry");
            ActionError::permanent(codes::UNREADABLE, why)
        })
    }

    /// Whether the call took effect before.
    ///
    /// # Errors
    /// `call.fenced`, permanent, when a later holder of the lease has acted for the step.
    pub(in crate::kubernetes) fn check(
        &self,
        stamp: &CallMetadata,
        name: &str,
    ) -> Result<PastCall, ActionError> {
        let Some(seen) = self.0.iter().find(|seen| seen.step == stamp.step) else { return Ok(PastCall::New) };
        if stamp.epoch.0 < seen.epoch {
            let why = format!(
                "{name}: step {} has acted with epoch {}, and {} came",
                stamp.step, seen.epoch, stamp.epoch.0
            );
            return Err(ActionError::permanent(codes::FENCED, why));
        }
        Ok(if seen.keys.contains(&stamp.key) { PastCall::Done } else { PastCall::New })
    }

    /// Whether a later holder of the lease is at work for the step than was seen.
    pub(in crate::kubernetes) fn is_newer(&self, stamp: &CallMetadata) -> bool {
        self.0.iter().any(|seen| seen.step == stamp.step && seen.epoch < stamp.epoch.0)
    }

    /// The memory once the call has taken effect, as the annotation has it.
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
