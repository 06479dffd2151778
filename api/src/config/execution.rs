//! How executions are worked on, in the real world and in a simulated one.

use super::ConfigDuration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How executions are worked on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Tasks worked on at once. Default 64.
    pub concurrency: usize,
    /// How long a lease lasts unless renewed. Default `30s`.
    pub lease: ConfigDuration,
    /// A task handed out more often than this without a result is poison. Default 8.
    pub poison_after: u32,
    /// How long a stop waits for work in flight. Default `10s`.
    pub drain: ConfigDuration,
    /// The commands that take effect only when a second person agrees, with commas between: `edit`, `mark_done`,
    /// `mark_not_done`, `skip`, `undo_with`, `cancel`, `retry`, `pause`, `resume`, `terminate`, `release`. Default `mark_done,skip,undo_with`.
    pub second_person: String,
}

/// What [`EngineSettings::second_person`] may name.
const COMMANDS: &[&str] = &[
    "edit",
    "mark_done",
    "mark_not_done",
    "skip",
    "undo_with",
    "cancel",
    "retry",
    "pause",
    "resume",
    "terminate",
    "release",
];

impl EngineSettings {
    /// The commands that need a second person.
    pub fn second_person(&self) -> impl Iterator<Item = &str> {
        self.second_person.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.concurrency == 0 {
            return Err("engine.concurrency: 0 would do nothing; use at least 1".into());
        }
        if self.lease.0 < Duration::from_secs(1) {
            return Err("engine.lease: use at least `1s`".into());
        }
        if let Some(unknown) = self.second_person().find(|name| !COMMANDS.contains(name)) {
            let known = COMMANDS.join(", ");
            return Err(format!("engine.second_person: {unknown:?} is no command; these are: {known}"));
        }
        Ok(())
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            concurrency: 64,
            lease: ConfigDuration(Duration::from_secs(30)),
            poison_after: 8,
            drain: ConfigDuration(Duration::from_secs(10)),
            second_person: "mark_done,skip,undo_with".into(),
        }
    }
}

/// How the simulated world behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedSettings {
    /// How long a change in the local world takes, in milliseconds; to watch an execution at work. Default 0.
    pub delay_ms: u64,
    /// Whether the server itself sees what is on simulated clusters; if not, facts are pushed as for real ones. Default true.
    pub observe: bool,
}

impl Default for SimulatedSettings {
    fn default() -> Self {
        Self { delay_ms: 0, observe: true }
    }
}

/// How those who wait for capacity are woken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Waitlist {
    /// How often it is looked whether someone can be served, beside whenever an execution moves. Default `30s`.
    pub every: ConfigDuration,
}

impl Default for Waitlist {
    fn default() -> Self {
        Self { every: ConfigDuration(Duration::from_secs(30)) }
    }
}

impl Waitlist {
    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.every.0 < Duration::from_secs(1) {
            return Err("waitlist.every: use at least `1s`".into());
        }
        Ok(())
    }
}
