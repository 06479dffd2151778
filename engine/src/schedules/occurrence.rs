//! What is kept of a schedule beside its definition: what became of every occurrence, and where the schedule stands.

use crate::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{CompositeKey, ExecutionId, Timestamp};

/// One moment of a schedule and what became of it. One a moment, kept until retention takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// The schedule.
    pub schedule: String,
    /// The moment that the expression names, or at which a person asked.
    pub nominal: Timestamp,
    /// When its fate was decided.
    pub at: Timestamp,
    /// What became of it.
    pub fate: Fate,
    /// When it was to be started, if not at its moment: moved by jitter, or asked for later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Why it is there.
    #[serde(default, skip_serializing_if = "Origin::is_clock")]
    pub origin: Origin,
    /// Who asked for it, if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// By which version of the schedule; 0 for what is built in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: u32,
    /// Why it has this fate; empty where there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// How that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// What became of an occurrence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Fate {
    /// Its moment has come, and it waits for the end of its jitter.
    Pending,
    /// It waits for an earlier run to end, or for its turn.
    Buffered,
    /// It was started.
    Fired,
    /// It came too late to be made up for.
    Missed,
    /// It was left out.
    Skipped,
    /// Another one that waits stands for it.
    Merged,
    /// It fell on a day on which nothing is started.
    Excluded,
    /// The schedule was paused.
    Paused,
    /// It could not be started, and never will be as it is.
    Failed,
}

/// Why an occurrence is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Origin {
    /// Its moment came.
    #[default]
    Clock,
    /// A person wanted one at once.
    Trigger,
    /// A person wanted those of a span made up for.
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
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it is still open what becomes of it.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Pending | Self::Buffered)
    }
}

impl Occurrence {
    /// Names the occurrence of `schedule` at `nominal`; ids of one schedule sort by moment.
    #[must_use]
    pub fn key(schedule: &str, nominal: Timestamp) -> String {
        CompositeKey::of(&[&schedule, &format_args!("{:020}", nominal.0)]).into()
    }

    /// Until when it is kept: 400 days from the decision on it, or a week if it is built in and there is nothing to say. One that waits
    /// or runs is kept.
    fn done_with(&self) -> Option<Timestamp> {
        let built_in = self.version == 0 && self.execution.is_none();
        let is_open =
            self.fate.is_waiting() || (self.fate == Fate::Fired && self.outcome.is_none() && !built_in);
        let quiet = built_in && self.outcome.as_deref() != Some("failed");
        let kept = crate::DAY * if quiet { 7 } else { 400 };
        (!is_open).then(|| self.at.max(self.nominal).after(kept))
    }

    /// When it is to be started.
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

/// Which occurrence a person's request under a key asked for: the same key asks for no other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerRequest {
    /// Whose key, and the key.
    pub key: String,
    /// Tells whether it is the same request.
    pub fingerprint: String,
    /// Of which schedule.
    pub schedule: String,
    /// The moment of the occurrence.
    pub nominal: Timestamp,
    /// When it was asked for.
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

/// Where a schedule stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleStatus {
    /// Which schedule's.
    #[serde(default)]
    pub name: String,
    /// Every moment up to here has its occurrence on record, but for those of [`ScheduleStatus::catching_up`].
    pub done: Timestamp,
    /// The latest version of the definition, also when it was deleted since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: u32,
    /// What the moments of a built-in schedule followed from when it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// Occurrences that wait, in the order of their turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Occurrence>,
    /// Occurrences whose executions are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Occurrence>,
    /// Executions that were told to end, so that another can start.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[serde(rename = "told")]
    pub asked_to_end: BTreeSet<ExecutionId>,
    /// Who paused it, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Spans that people want made up for, in the order in which they asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backfills: Vec<Backfill>,
    /// That the clock was set back, as long as moments that are still to come may be on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_back: Option<super::SetBack>,
    /// Late moments that are set aside, so that they do not keep the present one waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catching_up: Option<super::CatchingUp>,
    /// That the last occurrence to end failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// That the last occurrence of a schedule could not be started, or ended in a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// The moment of the occurrence.
    pub nominal: Timestamp,
    /// When it failed.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
    /// Its execution; absent if none was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
}

/// That a schedule starts nothing by the clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Who said so; `engine` after a failure.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: Timestamp,
}

/// A span whose occurrences are to be made up for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// Its first moment.
    pub from: Timestamp,
    /// Its last moment.
    pub to: Timestamp,
    /// Up to here it has been seen to.
    pub done: Timestamp,
    /// Who asked for it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

impl Entity for ScheduleStatus {
    const COLLECTION: &'static str = "schedules";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.name.clone()
    }
}
