//! The state file of a node: the last applied layout, the layout before a change in progress, and the keys and epochs
//! of steps. The file is replaced atomically and synced before the driver is called.

use crate::nvml::layout_change::GpuPartition;
use crate::state_file::{self, Steps};
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::path::Path;
use workflows::platform::{CallMetadata, Scrubbed};

pub(super) use crate::state_file::is_held;

/// The number of scrub results that are kept. A node has a few per day.
const SCRUBS: usize = 1_000;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NodeState {
    /// The last layout that was applied.
    pub(super) asked: Option<String>,
    /// A change in progress or interrupted.
    pub(super) underway: Option<PendingChange>,
    steps: Steps,
    /// Results of scrubs, by step and key, the newest last.
    scrubs: Vec<(String, String, Scrubbed)>,
}

/// A change that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingChange {
    /// The requested layout.
    pub(super) profile: String,
    /// The layout to restore after a failure.
    pub(super) before: Vec<GpuPartition>,
}

/// The state file, locked for this process.
#[derive(Debug)]
pub(super) struct LockedNodeState(state_file::LockedFile<NodeState>);

/// Reads the file without a lock.
pub(super) fn read(path: &Path) -> Result<NodeState, ActionError> {
    state_file::read(path)
}

impl LockedNodeState {
    /// Locks the file. Fails if another process holds the lock.
    pub(super) fn take(path: &Path) -> Result<Self, ActionError> {
        state_file::LockedFile::take(path, "another process is changing the GPUs").map(Self)
    }

    /// Returns true if this call already took effect. Rejects calls with an outdated epoch.
    pub(super) fn admit(&self, request: &str, stamp: &CallMetadata) -> Result<bool, ActionError> {
        self.0.content.steps.admit(request, stamp)
    }

    /// Removes and returns the change that an earlier process did not finish.
    pub(super) fn left_underway(&mut self) -> Option<PendingChange> {
        self.0.content.underway.take()
    }

    /// Records that a change begins.
    pub(super) fn begin(&mut self, underway: PendingChange, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.0.content.steps.seen(stamp, None);
        self.0.content.underway = Some(underway);
        self.0.keep()
    }

    /// Records that a change succeeded.
    pub(super) fn done(&mut self, profile: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.0.content.asked = Some(profile.to_owned());
        self.0.content.underway = None;
        self.0.content.steps.seen(stamp, Some(profile));
        self.0.keep()
    }

    /// Records that the previous layout was restored.
    pub(super) fn undone(&mut self) -> Result<(), ActionError> {
        self.0.content.underway = None;
        self.0.keep()
    }

    /// Records the epoch and the key of a step that cannot be interrupted halfway.
    pub(super) fn noted(&mut self, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.0.content.steps.seen(stamp, None);
        self.0.keep()
    }

    /// Records the result of a scrub.
    pub(super) fn cleared(
        &mut self,
        request: &str,
        scrubbed: Scrubbed,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let content = &mut self.0.content;
        content.steps.seen(stamp, Some(request));
        content.scrubs.drain(..content.scrubs.len().saturating_sub(SCRUBS - 1));
        content.scrubs.push((stamp.step.clone(), stamp.key.clone(), scrubbed));
        self.0.keep()
    }

    /// Returns the recorded result of the scrub with this key.
    pub(super) fn scrubbed(&self, stamp: &CallMetadata) -> Option<Scrubbed> {
        let of = |(step, key, _): &&(String, String, Scrubbed)| *step == stamp.step && *key == stamp.key;
        self.0.content.scrubs.iter().find(of).map(|(_, _, scrubbed)| scrubbed.clone())
    }
}
