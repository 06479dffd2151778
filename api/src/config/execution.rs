//! The engine, and the simulated platform.

use super::ConfigDuration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How executions run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// The number of concurrent tasks. Default 64.
    pub concurrency: usize,
    /// The duration of a lease without renewal. Default `30s`.
    pub lease: ConfigDuration,
    /// A task that was leased more often than this without a result is poisoned. Default 8.
    pub poison_after: u32,
    /// How long a stop waits for running work. Default `10s`.
    pub drain: ConfigDuration,
    /// The commands that need the confirmation of a second person, separated by commas: `edit`, `mark_done`, `mark_not_done`, `skip`, `undo_with`, `cancel`,
    /// `retry`, `pause`, `resume`, `terminate`, `release`. Default `mark_done,skip,undo_with`.
    pub second_person: String,
}

/// The allowed names in [`EngineSettings::second_person`].
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
    /// Returns the commands that need a second person.
    pub fn second_person(&self) -> impl Iterator<Item = &str> {
        self.second_person.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.concurrency == 0 {
            return Err("engine.concurrency: 0 is not allowed; use at least 1".into());
        }
        if self.lease.0 < Duration::from_secs(1) {
            return Err("engine.lease: use at least `1s`".into());
        }
        if let Some(unknown) = self.second_person().find(|name| !COMMANDS.contains(name)) {
            let known = COMMANDS.join(", ");
            return Err(format!("engine.second_person: {unknown:?} is not a command; use {known}"));
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

/// The simulated platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedSettings {
    /// The duration of a change on the local simulated platform, in milliseconds, to watch executions. Default 0.
    pub delay_ms: u64,
    /// True if the server observes simulated clusters; otherwise facts must be pushed as for real ones. Default true.
    pub observe: bool,
}

impl Default for SimulatedSettings {
    fn default() -> Self {
        Self { delay_ms: 0, observe: true }
    }
}

/// Waking of waitlists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Waitlist {
    /// The interval of checks for free capacity, in addition to checks after changes. Default `30s`.
    pub every: ConfigDuration,
}

impl Default for Waitlist {
    fn default() -> Self {
        Self { every: ConfigDuration(Duration::from_secs(30)) }
    }
}

impl Waitlist {
    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.every.0 < Duration::from_secs(1) {
            return Err("waitlist.every: use at least `1s`".into());
        }
        Ok(())
    }
}
