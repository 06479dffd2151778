//! The health of a schedule: the column `status` of lists, and rows of `/v1/stuck`.

use super::{built_in, label};
use crate::{http::problem::Problem, state::ServerState, types::schedules::Stuck};
use engine::{Schedule, ScheduleStatus};
use program::encoding::rfc3339::format_time;
use store::Timestamp;

/// The health of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum Status {
    Active,
    Paused { reason: String },
    Failing { reason: String, since: Timestamp },
    Exhausted { since: Timestamp },
    Invalid { reason: String },
}

impl Status {
    /// Returns the health of `schedule` at `now`.
    pub(in crate::http) fn of(schedule: &Schedule, standing: &ScheduleStatus, now: Timestamp) -> Self {
        if let Some(paused) = &standing.paused {
            return Self::Paused { reason: paused.reason.clone() };
        }
        let next = match schedule.upcoming(standing.fires_after(now), 1) {
            Ok(next) => next.into_iter().next(),
            Err(error) => return Self::Invalid { reason: error.to_string() },
        };
        let waits = !standing.waiting.is_empty() || !standing.backfills.is_empty();
        match &standing.failing {
            _ if next.is_none() && !waits => {
                Self::Exhausted { since: standing.done.max(schedule.set_at).min(now) }
            }
            Some(failing) => Self::Failing { reason: failing.reason.clone(), since: failing.at },
            None => Self::Active,
        }
    }

    /// The name of the status.
    pub(in crate::http) fn name(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused { .. } => "paused",
            Self::Failing { .. } => "failing",
            Self::Exhausted { .. } => "exhausted",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// The reason why the schedule is not active.
    pub(in crate::http) fn reason(&self) -> Option<String> {
        match self {
            Self::Active => None,
            Self::Paused { reason } | Self::Failing { reason, .. } | Self::Invalid { reason } => {
                Some(reason.clone())
            }
            Self::Exhausted { .. } => Some("its cron expression has no future occurrence".into()),
        }
    }

    /// Returns the row of `/v1/stuck`, if an operator must act.
    fn stuck(&self, schedule: &Schedule, now: Timestamp) -> Option<Stuck> {
        let (reason, since, next) = match self {
            Self::Active | Self::Paused { .. } => return None,
            Self::Failing { since, .. } => (
                "schedule_failing",
                *since,
                "remove the cause, then `tenure schedules trigger NAME`; `tenure schedules occurrences NAME` has the history",
            ),
            Self::Exhausted { since } => (
                "schedule_exhausted",
                *since,
                "set another cron expression with `tenure schedules set NAME`, or delete it with `tenure schedules delete NAME`",
            ),
            Self::Invalid { .. } => {
                ("schedule_invalid", schedule.set_at, "set it again with `tenure schedules set NAME`")
            }
        };
        let id = label(&schedule.name).to_owned();
        Some(Stuck {
            subject: format!("schedule/{id}"),
            id,
            workflow: Stuck::WORKFLOW,
            state: self.name(),
            reason,
            since: format_time(since),
            age_seconds: now.since(since).as_secs(),
            owner: vec!["platform_ops"],
            next,
            message: self.reason(),
        })
    }
}

/// Returns all schedules, built-in ones first.
pub(super) async fn all(app: &ServerState) -> Result<Vec<Schedule>, Problem> {
    let mut all = built_in(app).await?;
    let mut after = None;
    loop {
        let page = app.engine.schedules(after.as_deref(), 1_000).await?;
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Returns the schedules that need an operator.
pub(in crate::http) async fn stuck(app: &ServerState, now: Timestamp) -> Result<Vec<Stuck>, Problem> {
    let mut stuck = Vec::new();
    for schedule in all(app).await? {
        let standing = app.engine.schedule_status(&schedule.name).await?.unwrap_or_default();
        stuck.extend(Status::of(&schedule, &standing, now).stuck(&schedule, now));
    }
    Ok(stuck)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Failing, Paused, Target};
    use serde_json::json;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn schedule(cron: &str) -> Schedule {
        let target = Target::Start { workflow: "reclaim".into(), data: json!({}) };
        Schedule { set_at: Timestamp(NOW.0 - 60_000), ..Schedule::new("nightly", cron, "UTC", target) }
    }

    fn status(cron: &str, standing: ScheduleStatus) -> (&'static str, Option<Stuck>) {
        let schedule = schedule(cron);
        let status = Status::of(&schedule, &standing, NOW);
        (status.name(), status.stuck(&schedule, NOW))
    }

    #[test]
    fn a_schedule_without_future_occurrences_is_stuck_with_a_reason() {
        for cron in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 30 2 1 1 * 2020"] {
            let (name, stuck) = status(cron, ScheduleStatus::default());
            let stuck = stuck.unwrap();
            assert_eq!(
                (name, stuck.reason, stuck.age_seconds),
                ("exhausted", "schedule_exhausted", 60),
                "{cron}"
            );
            assert!(stuck.message.unwrap().contains("no future occurrence"), "{cron}");
        }
        let (name, stuck) = status("0 0 29 2 *", ScheduleStatus::default());
        assert_eq!((name, stuck.is_none()), ("active", true), "a leap day is still to come");
        let (name, stuck) = status("no cron", ScheduleStatus::default());
        assert_eq!((name, stuck.unwrap().reason), ("invalid", "schedule_invalid"));
    }

    #[test]
    fn a_failing_schedule_is_stuck_until_it_is_paused_or_succeeds() {
        let reason = "the user walt is unknown".to_owned();
        let failing = Failing { nominal: NOW, at: Timestamp(NOW.0 - 5_000), reason, execution: None };
        let standing = ScheduleStatus { failing: Some(failing), done: NOW, ..ScheduleStatus::default() };
        let (name, stuck) = status("0 0 * * *", standing.clone());
        let stuck = stuck.unwrap();
        assert_eq!((name, stuck.age_seconds, stuck.subject.as_str()), ("failing", 5, "schedule/nightly"));
        assert!(stuck.message.unwrap().contains("walt"));

        let paused = Paused { by: "ada".into(), reason: "walt was removed".into(), at: NOW };
        let (name, stuck) = status("0 0 * * *", ScheduleStatus { paused: Some(paused), ..standing });
        assert_eq!((name, stuck.is_none()), ("paused", true));
    }
}
