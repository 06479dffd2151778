//! Schedules, their occurrences, and sweep reports.

use super::Time;
use program::encoding::rfc3339::format_time;
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
    /// The version; also the `ETag`.
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
    /// Days without occurrences.
    #[schemars(with = "Vec<super::Object>")]
    pub(crate) exclude: Value,
    pub(crate) pause_on_failure: bool,
    /// The workflow to start; `null` for a built-in schedule.
    pub(crate) start: Option<Start>,
    pub(crate) note: String,
    pub(crate) set_by: Option<String>,
    #[schemars(with = "Option<Time>")]
    pub(crate) set_at: Option<String>,
    /// The pause: its author, reason and time.
    #[schemars(with = "Option<super::Object>")]
    pub(crate) paused: Option<Value>,
    #[schemars(with = "Option<Time>")]
    pub(crate) next: Option<String>,
    /// `active`, `paused`, `failing` (the last occurrence failed), `exhausted` (no future occurrence) or `invalid` (this version cannot read its times).
    pub(crate) status: &'static str,
    /// The reason if it is not active; otherwise `null`.
    pub(crate) status_reason: Option<String>,
}

/// A schedule that needs an operator: it fails, or has no future occurrence.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StuckSchedule")]
pub(crate) struct Stuck {
    /// The schedule.
    pub(crate) id: String,
    /// `schedule`, which is not a workflow.
    pub(crate) workflow: &'static str,
    /// The subject, such as `schedule/nightly`.
    pub(crate) subject: String,
    /// `failing`, `exhausted` or `invalid`.
    pub(crate) state: &'static str,
    /// `schedule_failing`, `schedule_exhausted` or `schedule_invalid`.
    pub(crate) reason: &'static str,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// The roles that must act.
    pub(crate) owner: Vec<&'static str>,
    /// The next step.
    pub(crate) next: &'static str,
    /// The fault.
    pub(crate) message: Option<String>,
}

impl Stuck {
    /// The `workflow` of a schedule.
    pub(crate) const WORKFLOW: &'static str = "schedule";
    /// The `reason`s of schedules.
    pub(crate) const REASONS: [&'static str; 3] =
        ["schedule_failing", "schedule_exhausted", "schedule_invalid"];
}

/// The workflow and request of a schedule.
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
    /// The next occurrences.
    pub(crate) firing: Vec<Firing>,
    pub(crate) running: Vec<Occurrence>,
    pub(crate) waiting: Vec<Occurrence>,
    #[schemars(with = "Vec<super::Object>")]
    pub(crate) backfills: Vec<Value>,
}

/// A future occurrence of a schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Firing {
    /// The local time in the zone of the schedule.
    pub(crate) local: String,
    #[schemars(with = "Time")]
    pub(crate) utc: String,
    /// The time with jitter.
    #[schemars(with = "Time")]
    pub(crate) due: String,
}

/// The preview of a backfill.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BackfillPreview {
    /// The number of occurrences of the period outside of excluded days, including those already started.
    pub(crate) moments: u64,
    /// True if the period has more occurrences, which were not counted.
    pub(crate) more: bool,
    #[schemars(with = "Option<Time>")]
    pub(crate) first: Option<String>,
    /// The last counted occurrence.
    #[schemars(with = "Option<Time>")]
    pub(crate) last: Option<String>,
    /// True if the backfill would be accepted.
    pub(crate) allowed: bool,
}

impl BackfillPreview {
    /// Returns the preview of `span`, with at most `most` allowed occurrences.
    pub(crate) fn of(span: &engine::BackfillSpan, most: u64) -> Self {
        Self {
            moments: span.moments,
            more: span.more,
            first: span.first.map(format_time),
            last: span.last.map(format_time),
            allowed: !span.more && span.moments <= most,
        }
    }
}

/// The result of one occurrence.
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

/// A sweep report.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes documents of the ledger")]
pub(crate) struct Swept {
    id: String,
    sweep: String,
    at: Time,
    /// The due time; `null` for a requested sweep.
    nominal: Option<Time>,
    by: String,
    seen: u64,
    /// The executions that it started.
    started: Vec<String>,
    found: Vec<String>,
    more: u64,
    failed: Option<String>,
}

/// A closed tenant of which something is there, or not known.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StuckClosedTenant {
    /// The tenant.
    pub(crate) id: String,
    pub(crate) tenant: String,
    /// `closed_tenant`.
    pub(crate) workflow: &'static str,
    /// Such as `tenant/acme`.
    pub(crate) subject: String,
    /// `closed`.
    pub(crate) state: &'static str,
    /// `closed_tenant_found` or `closed_tenant_unanswered`.
    pub(crate) reason: &'static str,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// The roles that must act.
    pub(crate) owner: Vec<&'static str>,
    /// The next step.
    pub(crate) next: &'static str,
    pub(crate) message: Option<String>,
}

impl StuckClosedTenant {
    /// The kind of the row, in the field of a workflow.
    pub(crate) const CLOSED_TENANT: &'static str = "closed_tenant";
}
