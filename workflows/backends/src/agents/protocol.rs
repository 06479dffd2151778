//! Messages between the server and a node's agent. There is one version of the protocol: unknown fields are ignored.

use crate::nvml::GpuFacts;
use engine::{ActionError, Class};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};
use store::Epoch;
use workflows::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, GpuHealth, GpuLayout, ScrubLevel, Scrubbed, codes,
};

/// Commands for an agent: the methods of `Gpus`, and the methods of `Workloads` that concern GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "call", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Command {
    /// Read the layout of the GPUs.
    Layout,
    /// Set the layout of the GPUs.
    SetLayout {
        /// The requested layout.
        profile: String,
    },
    /// Test the GPUs.
    Diagnose {
        /// The depth of the test.
        level: DiagnosisLevel,
    },
    /// Read the health counters of the driver.
    Health,
    /// Reset the GPUs.
    Reset,
    /// Reboot the node if its boot id is `boot`.
    Reboot {
        /// The id of the boot to end.
        boot: String,
    },
    /// List the processes that have GPUs open. An empty set means all GPUs.
    Clients {
        /// The indexes of the GPUs.
        gpus: BTreeSet<u16>,
    },
    /// Clear the memory of GPUs. An empty set means all GPUs.
    Scrub {
        /// The indexes of the GPUs.
        gpus: BTreeSet<u16>,
        /// The level of the scrub.
        level: ScrubLevel,
    },
}

impl Command {
    /// Returns true if the command can change something even without an answer.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::Layout | Self::Diagnose { .. } | Self::Health | Self::Clients { .. } => false,
            Self::SetLayout { .. } | Self::Reset | Self::Reboot { .. } | Self::Scrub { .. } => true,
        }
    }
}

/// A command with the metadata of its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCommand {
    /// The id of this delivery. A retry with the same key has another id.
    pub id: String,
    /// The command.
    pub command: Command,
    /// The step that makes the call.
    pub step: String,
    /// The idempotency key.
    pub key: String,
    /// The fencing token.
    pub epoch: u64,
    /// True for a compensation.
    #[serde(default)]
    pub undo: bool,
    /// True for a dry run, which must change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// How long the caller waits after delivery, in milliseconds.
    pub deadline_ms: u64,
}

impl IssuedCommand {
    /// Creates the order for a command and the metadata of its call.
    pub(super) fn of(id: String, command: Command, stamp: &CallMetadata) -> Self {
        Self {
            id,
            command,
            step: stamp.step.clone(),
            key: stamp.key.clone(),
            epoch: stamp.epoch.0,
            undo: stamp.undo,
            dry_run: stamp.dry_run,
            deadline_ms: millis(stamp.deadline),
        }
    }

    /// Returns true if the order can change something even without an answer.
    pub(super) fn changes(&self) -> bool {
        self.command.changes() && !self.dry_run
    }

    /// Returns the call metadata for the node. A fifth of the deadline, at most two seconds, is reserved for the
    /// answer's way back to the server.
    #[must_use]
    pub fn stamp(&self) -> CallMetadata {
        /// The largest reserved time.
        const WAY: Duration = Duration::from_secs(2);
        let whole = Duration::from_millis(self.deadline_ms);
        CallMetadata {
            action: (&self.command).into(),
            step: self.step.clone(),
            key: self.key.clone(),
            epoch: Epoch(self.epoch),
            undo: self.undo,
            deadline: whole.saturating_sub(WAY.min(whole / 5)),
            dry_run: self.dry_run,
        }
    }
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Result of `layout`.
    Layout(GpuLayout),
    /// Result of a command that returns no data.
    Done,
    /// Result of `diagnose`.
    Diagnosis(Diagnosis),
    /// Result of `health`.
    Health(GpuHealth),
    /// Result of `clients`.
    Clients(Vec<String>),
    /// Result of `scrub`.
    Scrubbed(Scrubbed),
}

/// An agent's poll for orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// The id of the agent process, new after each start.
    pub instance: String,
    /// The version of the agent program.
    #[serde(default)]
    pub version: String,
    /// Orders that the agent has received and not answered. A delivered order that is missing here never arrived.
    #[serde(default)]
    pub holding: BTreeSet<String>,
    /// How long the agent waits for orders, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
}

/// The answer to a poll.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullResponse {
    /// New orders.
    pub orders: Vec<IssuedCommand>,
    /// Orders of this agent whose callers no longer wait.
    #[serde(default)]
    pub withdrawn: BTreeSet<String>,
}

/// The answer to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The id of the order.
    pub id: String,
    /// The result.
    pub outcome: Result<Output, ActionError>,
}

/// An agent's report about its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// GPU facts from the driver.
    #[serde(default)]
    pub gpus: Option<GpuFacts>,
    /// Health of the GPUs.
    #[serde(default)]
    pub health: Option<GpuHealth>,
    /// The processes that have GPUs open.
    #[serde(default)]
    pub clients: Option<Vec<String>>,
    /// Reasons why values are missing.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// The longest message of an agent that is passed on, in characters.
const WORDS: usize = 1_000;
/// The longest retry delay that an agent may request.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Limits an agent's error to a known code and a short message. Agents run on machines that tenants use, so their text
/// is not trusted.
pub(super) fn checked(error: ActionError, changing: bool) -> ActionError {
    let message: String = error.message.chars().take(WORDS).collect();
    let Some((code, _)) = codes::ALL.iter().find(|(code, _)| *code == error.code) else {
        let said = format!("the agent answers with an unknown code {:?}: {message}", error.code);
        return crate::http_response::unreadable(said.chars().take(WORDS).collect::<String>(), changing);
    };
    let class = match error.class {
        Class::Pending { after } => Class::Pending { after: after.min(LONGEST) },
        Class::Transient | Class::Permanent | Class::Unknown => error.class,
    };
    let retry_after = error.retry_after.map(|span| span.min(LONGEST));
    ActionError { class, code: (*code).to_owned(), message, retry_after, beat: None, timed_out: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_an_agent_has_a_known_code_and_a_short_text() {
        let wordy = ActionError::transient(codes::GPU_BUSY, "x".repeat(5_000));
        assert_eq!(checked(wordy, true).message.len(), WORDS);
        let strange = checked(ActionError::permanent("tenant.approved", "believe me"), true);
        assert_eq!((strange.code.as_str(), strange.class), (codes::UNREADABLE, Class::Unknown));
        let long = checked(ActionError::pending(codes::SCRUBBING, Duration::from_secs(90_000)), true);
        assert_eq!(long.class, Class::Pending { after: LONGEST });
    }

    #[test]
    fn an_order_is_parsed_as_written_and_answered_before_its_caller_times_out() {
        let command = Command::Scrub { gpus: BTreeSet::from([0, 3]), level: ScrubLevel::Verified };
        let text = serde_json::json!({
            "id": "1", "command": { "call": "scrub", "gpus": [0, 3], "level": "verified" }, "step": "s", "key": "k",
            "epoch": 7, "deadline_ms": 5_000, "of_a_later_version": true,
        });
        let order: IssuedCommand = serde_json::from_value(text).unwrap();
        assert_eq!(order.command, command);
        let stamp = order.stamp();
        assert_eq!((stamp.epoch, stamp.deadline), (Epoch(7), Duration::from_secs(4)));
        let written: IssuedCommand = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
        assert_eq!(written, order);
    }
}
