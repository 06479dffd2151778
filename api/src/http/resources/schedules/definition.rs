//! The definition of a schedule, as users write it.

use crate::{
    config::ConfigDuration,
    http::problem::{Problem, code::ProblemCode},
    types,
};
use chrono::NaiveDate;
use engine::{CatchUp, Exclusion, Firing, Fold, Gap, Overlap, Schedule, Target};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use store::Timestamp;

/// The definition of a schedule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScheduleDefinition")]
pub(in crate::http) struct ScheduleDefinition {
    cron: String,
    zone: String,
    /// `skip` or `shift`; required where clocks change.
    #[schemars(with = "Option<String>")]
    skipped_hour: Option<Gap>,
    /// `first`, `last` or `both`; required where clocks change.
    #[schemars(with = "Option<String>")]
    repeated_hour: Option<Fold>,
    /// `skip`, `buffer_one`, `buffer_all`, `cancel_other`, `terminate_other` or `allow`.
    #[schemars(with = "Option<String>")]
    overlap: Option<Overlap>,
    buffer: Option<u32>,
    /// `none`, `latest` or `all`.
    #[schemars(with = "Option<String>")]
    catch_up: Option<CatchUp>,
    #[schemars(with = "Option<types::Span>")]
    window: Option<ConfigDuration>,
    #[schemars(with = "Option<types::Span>")]
    jitter: Option<ConfigDuration>,
    #[serde(default)]
    exclude: Vec<ScheduleExclusion>,
    #[serde(default)]
    pause_on_failure: bool,
    pub(in crate::http) start: StartDefinition,
    #[serde(default)]
    note: String,
}

/// Days without occurrences.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScheduleExclusion")]
struct ScheduleExclusion {
    from: String,
    to: Option<String>,
    #[serde(default)]
    why: String,
}

impl ScheduleExclusion {
    fn read(self) -> Result<Exclusion, Problem> {
        let day = |field: &str, text: String| {
            text.parse::<NaiveDate>().map_err(|_| {
                let detail = format!("exclude: {field}: {text:?} is not a date: write it like 2026-12-24");
                Problem::new(ProblemCode::DocumentInvalid, detail)
            })
        };
        let to = self.to.map(|to| day("to", to)).transpose()?;
        Ok(Exclusion { from: day("from", self.from)?, to, why: self.why })
    }
}

/// The workflow to start, and its request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScheduleStart")]
pub(in crate::http) struct StartDefinition {
    pub(in crate::http) workflow: String,
    #[serde(default)]
    pub(in crate::http) data: Value,
}

impl ScheduleDefinition {
    /// Returns the schedule with this name.
    pub(in crate::http) fn named(self, name: &str) -> Result<Schedule, Problem> {
        let target = Target::Start { workflow: self.start.workflow, data: self.start.data };
        let usual = Schedule::new(name, &self.cron, &self.zone, target);
        Ok(Schedule {
            skipped_hour: self.skipped_hour,
            repeated_hour: self.repeated_hour,
            overlap: self.overlap.unwrap_or(usual.overlap),
            buffer: self.buffer.unwrap_or(usual.buffer),
            catch_up: self.catch_up.unwrap_or(usual.catch_up),
            window: self.window.map(|window| window.0),
            jitter: self.jitter.map_or(usual.jitter, |jitter| jitter.0),
            exclude: self.exclude.into_iter().map(ScheduleExclusion::read).collect::<Result<_, _>>()?,
            pause_on_failure: self.pause_on_failure,
            note: self.note,
            ..usual
        })
    }
}

/// The maximum number of occurrences of a user's schedule within [`RATE_SPAN`].
const MOST_MOMENTS: usize = 6;
/// The period in which occurrences are counted.
const RATE_SPAN: Duration = Duration::from_secs(60);

/// Rejects a schedule that fires more than six times a minute, because each occurrence is a commit and a start. An invalid expression is rejected by the
/// engine.
pub(super) fn check_rate(schedule: &Schedule, now: Timestamp) -> Result<(), Problem> {
    let Ok(moments) = schedule.upcoming(now, 10 * MOST_MOMENTS) else { return Ok(()) };
    let dense = |window: &[Firing]| match window {
        [first, .., last] => last.nominal.since(first.nominal) < RATE_SPAN,
        _ => false,
    };
    if moments.windows(MOST_MOMENTS + 1).any(dense) {
        let detail = format!(
            "cron: {:?} fires more than {MOST_MOMENTS} times a minute; use an interval of at least 10 seconds",
            schedule.cron
        );
        return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_user_defined_schedule_fires_at_most_six_times_a_minute() {
        for (cron, taken) in [
            ("* * * * * *", false),
            ("*/9 * * * * *", false),
            ("0-59 0 2 * * *", false),
            ("*/10 * * * * *", true),
            ("0,1 0 2 * * *", true),
            ("* * * * *", true),
            ("no cron", true),
        ] {
            let target = Target::Start { workflow: "reclaim".into(), data: json!({}) };
            let schedule = Schedule::new("x", cron, "UTC", target);
            assert_eq!(check_rate(&schedule, Timestamp(1_800_000_000_000)).is_ok(), taken, "{cron}");
        }
    }
}
