//! Rows of `/v1/stuck` that belong to no open execution: closed limits, a clock that jumped, clusters that are not observed, and workloads that do not start.

use super::visible::{Sight, Visible, Warning};
use crate::{
    auth::Verb,
    http::problem::Problem,
    state::{ServerState, SharedState},
    types::operations::StuckPlatform,
};
use engine::{ClockJump, Entity as _, KeyStatus};
use program::encoding::rfc3339::format_time;
use std::sync::Arc;
use store::Timestamp;
use workflows::{
    observed::lease::Observer,
    scheduling::admission::Rules,
    tenancy::{FailedStart, Workload, WorkloadState},
};

/// The maximum number of workloads in the list.
const MOST_STARTS: usize = 100;

/// Everything beside executions that an operator has to look at, and that `sight` shows.
pub(super) async fn all(
    app: &SharedState,
    sight: &Arc<Sight>,
    now: Timestamp,
) -> Result<Visible<StuckPlatform>, Problem> {
    let limits = app.engine.limit_statuses().await?;
    let closed = limits.iter().filter_map(|limit| closed(limit, now));
    let mut rows: Vec<StuckPlatform> =
        app.engine.clock_jump().map(|jump| jumped(jump, now)).into_iter().chain(closed).collect();
    rows.extend(silent_sources(app, now).await?);
    rows.extend(failed_starts(app, sight, now).await?);
    Ok(sight.only(rows))
}

/// Clusters whose last observation is older than policy allows.
async fn silent_sources(app: &ServerState, now: Timestamp) -> Result<Vec<StuckPlatform>, Problem> {
    let life = app.engine.transact(false, |view| Ok(Rules::in_force(view)?.max_staleness)).await?;
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let store = app.engine.store();
        let found = store.documents(Observer::COLLECTION, "", after.as_deref(), 500).await;
        let found = found.map_err(engine::Error::from)?;
        let observers =
            found.items.iter().filter_map(|found| app.engine.parse_document::<Observer>(found).ok());
        rows.extend(observers.filter_map(|observer| {
            let since = observer.silent_since(now, life)?;
            Some(silent(&observer, since, now))
        }));
        after = found.next;
        if after.is_none() {
            return Ok(rows);
        }
    }
}

fn silent(observer: &Observer, since: Timestamp, now: Timestamp) -> StuckPlatform {
    let message = format!(
        "the last observation is older than policy allows (admission.max_staleness), so no workload is admitted there; {} observes it",
        observer.holder
    );
    StuckPlatform {
        id: observer.cluster.to_string(),
        workflow: StuckPlatform::OBSERVATION,
        tenant: None,
        subject: format!("cluster/{}", observer.cluster),
        state: "silent",
        reason: StuckPlatform::SILENT,
        since: format_time(since),
        age_seconds: now.since(since).as_secs(),
        owner: vec!["platform_ops"],
        next: "see the log of the server that observes it; check the cluster with `tenure doctor`",
        message: Some(message),
    }
}

/// Workloads that are admitted and that their clusters do not start.
async fn failed_starts(
    app: &SharedState,
    sight: &Arc<Sight>,
    now: Timestamp,
) -> Result<Vec<StuckPlatform>, Problem> {
    let source = FailedStarts { app: app.clone(), sight: sight.clone(), now };
    first_rows(MOST_STARTS, &source).await
}

/// A stored list of which some items make a row.
trait RowSource: Sync {
    type Item: Send;
    type Row: Send;

    /// Returns the page after `after`, and after what the next one begins.
    fn page(
        &self,
        after: Option<String>,
    ) -> impl Future<Output = Result<(Vec<Self::Item>, Option<String>), Problem>> + Send;

    /// Returns the row of an item, if there is one to show.
    fn row(&self, item: Self::Item) -> impl Future<Output = Result<Option<Self::Row>, Problem>> + Send;
}

/// Returns the first `most` rows, and reads no more than that takes.
async fn first_rows<S: RowSource>(most: usize, source: &S) -> Result<Vec<S::Row>, Problem> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let (items, next) = source.page(after).await?;
        for item in items {
            rows.extend(source.row(item).await?);
            if rows.len() >= most {
                return Ok(rows);
            }
        }
        after = next;
        if after.is_none() {
            return Ok(rows);
        }
    }
}

struct FailedStarts {
    app: SharedState,
    sight: Arc<Sight>,
    now: Timestamp,
}

impl RowSource for FailedStarts {
    type Item = Arc<FailedStart>;
    type Row = StuckPlatform;

    async fn page(&self, after: Option<String>) -> Result<(Vec<Self::Item>, Option<String>), Problem> {
        let engine = &self.app.engine;
        let found = engine.store().documents(FailedStart::COLLECTION, "", after.as_deref(), 500).await;
        let found = found.map_err(engine::Error::from)?;
        let items = found.items.iter().filter_map(|found| engine.parse_document::<FailedStart>(found).ok());
        Ok((items.collect(), found.next))
    }

    async fn row(&self, failed: Arc<FailedStart>) -> Result<Option<StuckPlatform>, Problem> {
        // Before the bound: rows that the caller does not see leave room for those that it sees.
        let shown = failed.is_stuck() && self.sight.sees(failed.tenant.as_str(), Verb::ReadExecutions);
        let listed = shown && still_admitted(&self.app, &failed).await?;
        Ok(listed.then(|| not_started(&failed, self.now)))
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
        tenant: Some(failed.tenant.to_string()),
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

/// Returns the reasons why operators are not notified of problems.
pub(super) fn warnings(app: &ServerState) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if app.outbox.channels().is_empty() {
        let text =
            "no notification channel is set, so operators are not notified of problems (`notify.channels`)";
        warnings.push(Warning(text.to_owned()));
    }
    warnings
}

fn closed(limit: &KeyStatus, now: Timestamp) -> Option<StuckPlatform> {
    let closed = limit.closed.as_ref()?;
    let until = closed.until.map(|until| format!(", until {}", format_time(until))).unwrap_or_default();
    let message = format!("closed by {}: {}{until}; {} attempts wait", closed.by, closed.why, limit.queued);
    let row = StuckPlatform {
        id: limit.key.clone(),
        workflow: StuckPlatform::LIMIT,
        tenant: None,
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
        tenant: None,
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_clock_jump_is_listed_with_its_times_and_the_next_step() {
        let row = jumped(ClockJump { from: Timestamp(0), to: Timestamp(86_400_000) }, Timestamp(86_460_000));
        assert_eq!((row.reason, row.age_seconds), ("clock_jumped", 60));
        let message = row.message.unwrap_or_default();
        assert!(message.contains("1970-01-01") && message.contains("1970-01-02"), "{message}");
    }

    #[test]
    fn a_silent_cluster_is_listed_with_the_time_since_which_nothing_is_admitted() {
        let observer = Observer {
            cluster: "c-1".parse().unwrap(),
            term: workflows::observed::Term(3),
            holder: "engine-7".into(),
            until: Timestamp(0),
            since: Some(Timestamp(0)),
            freshness: Some(workflows::observed::Freshness { fresh_until: Timestamp(60_000) }),
        };
        let row = |now| {
            let since = observer.silent_since(now, std::time::Duration::from_secs(60))?;
            Some(silent(&observer, since, now))
        };
        assert!(row(Timestamp(59_999)).is_none());
        let row = row(Timestamp(90_000)).unwrap();
        assert_eq!((row.reason, row.subject.as_str(), row.age_seconds), ("source_silent", "cluster/c-1", 30));
        assert!(row.message.unwrap_or_default().contains("engine-7"));
    }

    /// Numbers of which every `each`th makes a row, in pages; counts what is read.
    struct Numbers {
        items: usize,
        each: usize,
        pages: AtomicUsize,
        read: AtomicUsize,
    }

    impl RowSource for Numbers {
        type Item = usize;
        type Row = usize;

        async fn page(&self, after: Option<String>) -> Result<(Vec<usize>, Option<String>), Problem> {
            self.pages.fetch_add(1, Ordering::Relaxed);
            let from: usize = after.map_or(0, |after| after.parse().unwrap());
            let to = self.items.min(from + 500);
            Ok(((from..to).collect(), (to < self.items).then(|| to.to_string())))
        }

        async fn row(&self, item: usize) -> Result<Option<usize>, Problem> {
            self.read.fetch_add(1, Ordering::Relaxed);
            Ok(item.is_multiple_of(self.each).then_some(item))
        }
    }

    /// Returns how many rows, pages and items are read.
    async fn read(items: usize, each: usize) -> (usize, usize, usize) {
        let numbers = Numbers { items, each, pages: AtomicUsize::new(0), read: AtomicUsize::new(0) };
        let rows = first_rows(MOST_STARTS, &numbers).await.unwrap_or_default();
        (rows.len(), numbers.pages.into_inner(), numbers.read.into_inner())
    }

    #[tokio::test]
    async fn no_more_failed_starts_are_read_than_fill_the_list() {
        assert_eq!(read(100_000, 1).await, (100, 1, 100));
        assert_eq!(read(100_000, 10).await, (100, 2, 991), "others are passed over");
        assert_eq!(read(1_200, 100).await, (12, 3, 1_200), "a list that is not full reads all pages");
        assert_eq!(read(0, 1).await, (0, 1, 0));
    }
}
