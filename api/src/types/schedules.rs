//! Schedules, their occurrences, and what sweeps found.

use super::Time;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A schedule in lists.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ScheduleRow")]
pub(crate) struct Row {
    pub(crate) name: String,
    /// `built_in` or `set`.
    pub(crate) kind: &'static str,
    /// The `ETag`.
    pub(crate) version: u32,
    pub(crate) cron: String,
    pub(crate) zone: String,
    #[schemars(with = "Option<String>")]
    pub(crate) skipped_hour: Value,
    #[schemars(with = "Option<String>")]
    pub(crate) repeated_hour: Value,
    #[schemars(with = "String")]
    pub(crate) overlap: Value,
    pub(crate) buffer: u32,
    #[schemars(with = "String")]
    pub(crate) catch_up: Value,
    #[schemars(with = "Option<super::Span>")]
    pub(crate) window: Option<String>,
    #[schemars(with = "super::Span")]
    pub(crate) jitter: String,
    /// Days on which nothing is started.
    #[schemars(with = "Vec<super::Object>")]
    pub(crate) exclude: Value,
    pub(crate) pause_on_failure: bool,
    /// What is started; `null` of one that is built in.
    pub(crate) start: Option<Start>,
    pub(crate) note: String,
    pub(crate) set_by: Option<String>,
    #[schemars(with = "Option<Time>")]
    pub(crate) set_at: Option<String>,
    /// Who paused it, why and when.
    #[schemars(with = "Option<super::Object>")]
    pub(crate) paused: Option<Value>,
    #[schemars(with = "Option<Time>")]
    pub(crate) next: Option<String>,
}

/// What a schedule starts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ScheduledStart")]
pub(crate) struct Start {
    pub(crate) workflow: String,
    pub(crate) data: Value,
}

/// A schedule in full.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Schedule {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// The next moments.
    pub(crate) firing: Vec<Firing>,
    pub(crate) running: Vec<Occurrence>,
    pub(crate) waiting: Vec<Occurrence>,
    #[schemars(with = "Vec<super::Object>")]
    pub(crate) backfills: Vec<Value>,
}

/// A moment at which a schedule fires.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Firing {
    /// In the schedule's zone.
    pub(crate) local: String,
    #[schemars(with = "Time")]
    pub(crate) utc: String,
    /// With its jitter.
    #[schemars(with = "Time")]
    pub(crate) due: String,
}

/// What became of one moment of a schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Occurrence {
    pub(crate) schedule: String,
    #[schemars(with = "Time")]
    pub(crate) nominal: String,
    #[schemars(with = "Time")]
    pub(crate) due: String,
    #[schemars(with = "String")]
    pub(crate) fate: Value,
    #[schemars(with = "Time")]
    pub(crate) at: String,
    pub(crate) reason: Option<String>,
    /// `clock`, `trigger` or `backfill`.
    #[schemars(with = "String")]
    pub(crate) origin: Value,
    pub(crate) by: Option<String>,
    pub(crate) version: u32,
    pub(crate) execution: Option<String>,
    pub(crate) outcome: Option<String>,
}

/// What a sweep found.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct Swept {
    id: String,
    sweep: String,
    at: Time,
    /// When it was due; `null` of one that was asked for.
    nominal: Option<Time>,
    by: String,
    seen: u64,
    /// Executions that it started.
    started: Vec<String>,
    found: Vec<String>,
    more: u64,
    failed: Option<String>,
}
