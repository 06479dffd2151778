//! What passes between a server and the agent of a node. One version of both is enough: a field that the other does not know is
//! passed over.

use crate::nvml::GpuFacts;
use engine::{ActionError, Class};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};
use store::Epoch;
use workflows::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, GpuHealth, GpuLayout, ScrubLevel, Scrubbed, codes,
};

/// What an agent can be asked to do: the calls of `Gpus`, and those of `Workloads` that are about GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "call", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Command {
    /// How the GPUs are partitioned.
    Layout,
    /// Partition them so.
    SetLayout {
        /// The profile to have.
        profile: String,
    },
    /// Test them.
    Diagnose {
        /// How deep.
        level: DiagnosisLevel,
    },
    /// What the driver has counted of them.
    Health,
    /// Reset them.
    Reset,
    /// Reboot the node, if its boot is this one.
    Reboot {
        /// The boot that is to end.
        boot: String,
    },
    /// Who has these open, by index; of all when none is named.
    Clients {
        /// Which.
        gpus: BTreeSet<u16>,
    },
    /// Clear the memory of these, by index; of all when none is named.
    Scrub {
        /// Which.
        gpus: BTreeSet<u16>,
        /// How far.
        level: ScrubLevel,
    },
}

impl Command {
    /// Whether something can have changed when no answer comes.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::Layout | Self::Diagnose { .. } | Self::Health | Self::Clients { .. } => false,
            Self::SetLayout { .. } | Self::Reset | Self::Reboot { .. } | Self::Scrub { .. } => true,
        }
    }
}

/// A command with the circumstances of its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCommand {
    /// Names this sending of the command; a repetition with the same key has another.
    pub id: String,
    /// What to do.
    pub command: Command,
    /// On behalf of which step.
    pub step: String,
    /// The idempotency key.
    pub key: String,
    /// The fencing token.
    pub epoch: u64,
    /// Whether it is a compensation.
    #[serde(default)]
    pub undo: bool,
    /// Whether nothing may change.
    #[serde(default)]
    pub dry_run: bool,
    /// How long somebody waits for the answer, in milliseconds from when it was handed over.
    pub deadline_ms: u64,
}

impl IssuedCommand {
    /// The order for a command in these circumstances.
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

    /// Whether something can have changed when no answer comes.
    pub(super) fn changes(&self) -> bool {
        self.command.changes() && !self.dry_run
    }

    /// The circumstances as the node sees them. An answer has to reach the server before its caller gives up, so a fifth of the
    /// time, at most two seconds, is kept for the way back.
    #[must_use]
    pub fn stamp(&self) -> CallMetadata {
        /// The most that is kept.
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

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Of `layout`.
    Layout(GpuLayout),
    /// Of what answers nothing but that it is done.
    Done,
    /// Of `diagnose`.
    Diagnosis(Diagnosis),
    /// Of `health`.
    Health(GpuHealth),
    /// Of `clients`.
    Clients(Vec<String>),
    /// Of `scrub`.
    Scrubbed(Scrubbed),
}

/// What an agent says when it asks for orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Names the process: another one after each start.
    pub instance: String,
    /// The version of its program.
    #[serde(default)]
    pub version: String,
    /// The orders that it has and has not answered yet. What was handed over to it and is not among them never came.
    #[serde(default)]
    pub holding: BTreeSet<String>,
    /// How long it waits for orders, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
}

/// What it is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullResponse {
    /// What to do.
    pub orders: Vec<IssuedCommand>,
    /// Of the orders that it has, those for which nobody waits any more.
    #[serde(default)]
    pub withdrawn: BTreeSet<String>,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Which.
    pub id: String,
    /// What it came to.
    pub outcome: Result<Output, ActionError>,
}

/// What an agent saw of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its GPUs, by the driver.
    #[serde(default)]
    pub gpus: Option<GpuFacts>,
    /// How they are.
    #[serde(default)]
    pub health: Option<GpuHealth>,
    /// Who has them open.
    #[serde(default)]
    pub clients: Option<Vec<String>>,
    /// Why something of this is not known.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// How much of an agent's words is passed on, in characters.
const WORDS: usize = 1_000;
/// The longest that an agent may ask to be left alone.
const LONGEST: Duration = Duration::from_secs(3_600);

/// A failure as it is passed on: with a code that is known, and no more words than fit. An agent is one of many, on a machine that
/// tenants use.
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
    fn what_an_agent_says_is_passed_on_with_a_known_code_and_few_words() {
        let wordy = ActionError::transient(codes::GPU_BUSY, "x".repeat(5_000));
        assert_eq!(checked(wordy, true).message.len(), WORDS);
        let strange = checked(ActionError::permanent("tenant.approved", "believe me"), true);
        assert_eq!((strange.code.as_str(), strange.class), (codes::UNREADABLE, Class::Unknown));
        let long = checked(ActionError::pending(codes::SCRUBBING, Duration::from_secs(90_000)), true);
        assert_eq!(long.class, Class::Pending { after: LONGEST });
    }

    #[test]
    fn an_order_is_read_as_it_was_written_and_answered_before_its_caller_gives_up() {
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
