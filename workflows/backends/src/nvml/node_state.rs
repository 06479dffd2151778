//! What a node must not forget: which layout was asked for, what stood before a change that is under way, and the keys and epochs
//! of the steps that have acted. In one file, replaced whole and synced before anything is done.

use crate::nvml::layout_change::GpuPartition;
use crate::state_file::{self, Steps};
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::path::Path;
use workflows::platform::{CallMetadata, Scrubbed};

pub(super) use crate::state_file::is_held;

/// How many outcomes of scrubs are remembered; a node sees a few a day.
const SCRUBS: usize = 1_000;

/// What is in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NodeState {
    /// The layout that was asked for last and came to stand.
    pub(super) asked: Option<String>,
    /// A change that was begun and has not ended.
    pub(super) underway: Option<PendingChange>,
    steps: Steps,
    /// What scrubs came to, by step and key, the last at the end.
    scrubs: Vec<(String, String, Scrubbed)>,
}

/// A change that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingChange {
    /// To which layout.
    pub(super) profile: String,
    /// What to go back to.
    pub(super) before: Vec<GpuPartition>,
}

/// The file, and nobody else's while it is held.
#[derive(Debug)]
pub(super) struct LockedNodeState(state_file::LockedFile<NodeState>);

/// Reads the file without holding it.
pub(super) fn read(path: &Path) -> Result<NodeState, ActionError> {
    state_file::read(path)
}

impl LockedNodeState {
    /// Takes the file, unless another process has it.
    pub(super) fn take(path: &Path) -> Result<Self, ActionError> {
        state_file::LockedFile::take(path, "another process is changing the GPUs").map(Self)
    }

    /// Whether this call took effect before. Refuses one of a holder that was followed by another.
    pub(super) fn admit(&self, request: &str, stamp: &CallMetadata) -> Result<bool, ActionError> {
        self.0.content.steps.admit(request, stamp)
    }

    /// The change that an earlier process began and did not end.
    pub(super) fn left_underway(&mut self) -> Option<PendingChange> {
        self.0.content.underway.take()
    }

    /// Writes down that a change begins.
    pub(super) fn begin(&mut self, underway: PendingChange, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.0.content.steps.seen(stamp, None);
        self.0.content.underway = Some(underway);
        self.0.keep()
    }

    /// Writes down that it has ended well.
    pub(super) fn done(&mut self, profile: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.0.content.asked = Some(profile.to_owned());
        self.0.content.underway = None;
        self.0.content.steps.seen(stamp, Some(profile));
        self.0.keep()
    }

    /// Writes down that everything is as it was before.
    pub(super) fn undone(&mut self) -> Result<(), ActionError> {
        self.0.content.underway = None;
        self.0.keep()
    }

    /// Writes down that a step acts which leaves nothing half done.
    pub(super) fn noted(&mut self, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.0.content.steps.seen(stamp, None);
        self.0.keep()
    }

    /// Writes down what a scrub came to.
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

    /// What the scrub with this key came to.
    pub(super) fn scrubbed(&self, stamp: &CallMetadata) -> Option<Scrubbed> {
        let of = |(step, key, _): &&(String, String, Scrubbed)| *step == stamp.step && *key == stamp.key;
        self.0.content.scrubs.iter().find(of).map(|(_, _, scrubbed)| scrubbed.clone())
    }
}
