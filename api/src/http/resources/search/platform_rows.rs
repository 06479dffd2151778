//! Rows of `/v1/stuck` that belong to no open execution: closed limits, a clock that jumped, and workloads that do not start.

use crate::{http::problem::Problem, state::ServerState, types::operations::StuckPlatform};
use engine::{ClockJump, Entity as _, KeyStatus};
use program::encoding::rfc3339::format_time;
use store::Timestamp;
use workflows::tenancy::{FailedStart, Workload, WorkloadState};

/// The maximum number of workloads in the list.
const MOST_STARTS: usize = 100;

/// Returns the rows about the platform.
pub(super) async fn all(app: &ServerState, now: Timestamp) -> Result<Vec<StuckPlatform>, Problem> {
    let limits = app.engine.limit_statuses().await?;
    let closed = limits.iter().filter_map(|limit| closed(limit, now));
    let mut rows: Vec<StuckPlatform> =
        app.engine.clock_jump().map(|jump| jumped(jump, now)).into_iter().chain(closed).collect();
    rows.extend(failed_starts(app, now).await?);
    Ok(rows)
}

/// Returns admitted workloads that their clusters do not start.
async fn failed_starts(app: &ServerState, now: Timestamp) -> Result<Vec<StuckPlatform>, Problem> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = app.engine.store().documents(FailedStart::COLLECTION, "", after.as_deref(), 500).await;
        let page = page.map_err(engine::Error::from)?;
        for found in &page.items {
            let Ok(failed) = app.engine.parse_document::<FailedStart>(found) else { continue };
            if failed.is_stuck() && still_admitted(app, &failed).await? {
                rows.push(not_started(&failed, now));
            }
            if rows.len() >= MOST_STARTS {
                return Ok(rows);
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(rows);
        }
    }
}

async fn still_admitted(app: &ServerState, failed: &FailedStart) -> Result<bool, Problem> {
    let key = Workload::key(&failed.tenant, &failed.workload);
    let found = app.engine.transact(false, |view| view.get::<Workload>(&key)).await?;
    Ok(found.is_some_and(|workload| {
        workload.state == WorkloadState::Admitted && workload.decision == failed.decision
    }))
}

fn not_started(failed: &FailedStart, now: Timestamp) -> StuckPlatform {
    let message = format!(
        "{} starts have failed; the next attempt is at {}",
        failed.tries,
        format_time(failed.next_at)
    );
    StuckPlatform {
        id: failed.execution.to_string(),
        workflow: StuckPlatform::START,
        subject: format!("workload/{}/{}", failed.tenant, failed.workload),
        state: "failed",
        reason: StuckPlatform::NOT_STARTED,
        since: format_time(failed.at),
        age_seconds: now.since(failed.at).as_secs(),
        owner: vec!["platform_ops"],
        next: "see the reason with `tenure executions show ID`; wait for the next attempt, or end the workload with `tenure workload finish`",
        message: Some(message),
    }
}

/// Returns reasons why operators may miss notifications.
pub(super) fn warnings(app: &ServerState) -> Vec<String> {
    if app.outbox.channels().is_empty() {
        return vec![
            "no notification channel is configured: operators are not notified of stuck executions (notify.channels)".to_owned(),
        ];
    }
    Vec::new()
}

fn closed(limit: &KeyStatus, now: Timestamp) -> Option<StuckPlatform> {
    let closed = limit.closed.as_ref()?;
    let until = closed.until.map(|until| format!(", until {}", format_time(until))).unwrap_or_default();
    let message = format!("closed by {}: {}{until}; {} attempts wait", closed.by, closed.why, limit.queued);
    let row = StuckPlatform {
        id: limit.key.clone(),
        workflow: StuckPlatform::LIMIT,
        subject: format!("limit/{}", limit.key),
        state: "closed",
        reason: StuckPlatform::CLOSED,
        since: format_time(limit.oldest.unwrap_or(now)),
        age_seconds: now.since(limit.oldest.unwrap_or(now)).as_secs(),
        owner: vec!["platform_ops"],
        next: "open the limit with `tenure limits open KEY`",
        message: Some(message),
    };
    Some(row)
}

fn jumped(jump: ClockJump, now: Timestamp) -> StuckPlatform {
    let message = format!(
        "the clock jumped from {} to {}: retention, contract ends and approval deadlines are paused",
        format_time(jump.from),
        format_time(jump.to)
    );
    StuckPlatform {
        id: "clock".to_owned(),
        workflow: StuckPlatform::CLOCK,
        subject: "platform/clock".to_owned(),
        state: "jumped",
        reason: StuckPlatform::JUMPED,
        since: format_time(jump.to),
        age_seconds: now.since(jump.to).as_secs(),
        owner: vec!["platform_ops"],
        next: "set the clock, or confirm it with `tenure store confirm-clock` if it is right",
        message: Some(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_jump_is_listed_with_its_times_and_the_next_step() {
        let row = jumped(ClockJump { from: Timestamp(0), to: Timestamp(86_400_000) }, Timestamp(86_460_000));
        assert_eq!((row.reason, row.age_seconds), ("clock_jumped", 60));
        let message = row.message.unwrap_or_default();
        assert!(message.contains("1970-01-01") && message.contains("1970-01-02"), "{message}");
    }
}
