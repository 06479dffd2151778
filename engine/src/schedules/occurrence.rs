//! The stored state of a schedule: its status, and the fate of every occurrence.

use crate::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{CompositeKey, ExecutionId, Timestamp};

/// One moment of a schedule, and its fate. There is one for each moment, until its retention ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// The schedule.
    pub schedule: String,
    /// The moment that the expression names, or the moment of a person's request.
    pub nominal: Timestamp,
    /// When its fate was decided.
    pub at: Timestamp,
    /// The fate.
    pub fate: Fate,
    /// When it was due, if not at its moment: delayed by jitter, or requested later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Why it exists.
    #[serde(default, skip_serializing_if = "Origin::is_clock")]
    pub origin: Origin,
    /// The requester, if a person requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The version of the schedule; 0 for built-in schedules.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: u32,
    /// The reason of its fate; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The execution that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The outcome of that execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// The fates of an occurrence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Fate {
    /// Its moment has come, and its jitter has not passed.
    Pending,
    /// It waits for an earlier run to end, or for its turn.
    Buffered,
    /// It was started.
    Fired,
    /// It was too late to start.
    Missed,
    /// It was skipped.
    Skipped,
    /// It was merged into another waiting occurrence.
    Merged,
    /// It was on an excluded day.
    Excluded,
    /// The schedule was paused.
    Paused,
    /// It could not be started, and never will be.
    Failed,
}

/// Why an occurrence exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Origin {
    /// The clock reached its moment.
    #[default]
    Clock,
    /// A person triggered it.
    Trigger,
    /// A person requested a backfill.
    Backfill,
}

impl Origin {
    fn is_clock(&self) -> bool {
        *self == Self::Clock
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Fate {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns true if its fate is still open.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Pending | Self::Buffered)
    }
}

impl Occurrence {
    /// Returns the id of the occurrence of `schedule` at `nominal`. The ids of one schedule sort by moment.
    #[must_use]
    pub fn key(schedule: &str, nominal: Timestamp) -> String {
        CompositeKey::of(&[&schedule, &format_args!("{:020}", nominal.0)]).into()
    }

    /// Returns until when it is retained: 400 days from the decision, or a week for a built-in one without a failure.
    /// A waiting or running one is retained.
    fn done_with(&self) -> Option<Timestamp> {
        let built_in = self.version == 0 && self.execution.is_none();
        let is_open =
            self.fate.is_waiting() || (self.fate == Fate::Fired && self.outcome.is_none() && !built_in);
        let quiet = built_in && self.outcome.as_deref() != Some("failed");
        let kept = crate::DAY * if quiet { 7 } else { 400 };
        (!is_open).then(|| self.at.max(self.nominal).after(kept))
    }

    /// Returns when it is due.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.due.unwrap_or(self.nominal)
    }
}

impl Entity for Occurrence {
    const COLLECTION: &'static str = "occurrences";
    const RETENTION: crate::Retention<Self> = crate::Retention::Until(Self::done_with);

    fn id(&self) -> String {
        Self::key(&self.schedule, self.nominal)
    }
}

/// The occurrence that a request with an idempotency key triggered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerRequest {
    /// The user and the key.
    pub key: String,
    /// The fingerprint of the request.
    pub fingerprint: String,
    /// The schedule.
    pub schedule: String,
    /// The moment of the occurrence.
    pub nominal: Timestamp,
    /// When it was requested.
    pub at: Timestamp,
}

impl Entity for TriggerRequest {
    const COLLECTION: &'static str = "triggers";
    const RETENTION: crate::Retention<Self> =
        crate::Retention::Scratch(|asked| Some(asked.at.after(crate::DAY * 7)));

    fn id(&self) -> String {
        self.key.clone()
    }
}

/// The status of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleStatus {
    /// The name of the schedule.
    #[serde(default)]
    pub name: String,
    /// Every moment up to here has a row, except those of [`ScheduleStatus::catching_up`].
    pub done: Timestamp,
    /// The latest version of the definition, even if it was deleted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: u32,
    /// The definition of a built-in schedule's moments at its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// The waiting occurrences, in the order of their turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Occurrence>,
    /// The occurrences whose executions are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Occurrence>,
    /// The executions that were asked to end, so that another can start.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[serde(rename = "told")]
    pub asked_to_end: BTreeSet<ExecutionId>,
    /// The pause, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The backfills, in the order of their requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backfills: Vec<Backfill>,
    /// Set after the clock was set back, while future moments may have rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_back: Option<super::SetBack>,
    /// Late moments that are set aside, so that they do not delay the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catching_up: Option<super::CatchingUp>,
    /// Set if the last occurrence to end failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// The failure of the last occurrence: it could not be started, or its execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// The moment of the occurrence.
    pub nominal: Timestamp,
    /// When it failed.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
    /// The execution; absent if none was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
}

/// The pause of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The person who paused it; `engine` after a failure.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The start of the pause.
    pub at: Timestamp,
}

/// A requested span of missed occurrences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// The first moment.
    pub from: Timestamp,
    /// The last moment.
    pub to: Timestamp,
    /// The last processed moment.
    pub done: Timestamp,
    /// The requester.
    pub by: String,
    /// When it was requested.
    pub at: Timestamp,
}

impl Entity for ScheduleStatus {
    const COLLECTION: &'static str = "schedules";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.name.clone()
    }
}
