//! Metrics of the platform's state for `/metrics`: stuck executions, open approvals and deadlines, loans, and free capacity.
//!
//! Computed on request, so that values are present while nothing changes, but at most once in [`FRESH`]. Each computation starts with new gauges, so old label
//! values disappear. Labels are bounded: reasons, clusters, regions, models and configured channels, never tenants, persons or ids.

use crate::state::ServerState;
use engine::{Entity, Error, Reason, Workflow as _};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode_registry},
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use serde_json::Value;
use std::{sync::atomic::AtomicU64, time::Duration};
use store::{Query, Record, Timestamp};
use strum::VariantArray as _;
use tokio::sync::Mutex;
use workflows::{
    closed_tenants::all_looks,
    observed::lease::Observer,
    reclaim::Reclaim,
    scheduling::admission::Rules,
    sweeps::{HoldConcern, MissedPromise, hold_matters},
    tenancy::{FreePool, OpenLoans, Waitlist},
};

/// How long computed values are reused.
const FRESH: Duration = Duration::from_secs(5);
/// The number of items read at once.
const PAGE: usize = 500;
/// The maximum count per type; this many are an alarm anyway.
const MOST: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCluster {
    cluster: String,
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByObservedCluster {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRegion {
    region: String,
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResource {
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByChannel {
    channel: String,
    state: String,
}

/// A time for Prometheus: seconds since 1970, 0 for none.
type Moment = Gauge<f64, AtomicU64>;

/// The last values, with their time.
#[derive(Debug, Default)]
pub(crate) struct StatusMetrics {
    last: Mutex<Option<(Timestamp, String)>>,
}

impl StatusMetrics {
    /// Returns the gauges as text, without the end marker. Unavailable values are omitted and logged.
    pub(crate) async fn text(&self, app: &ServerState) -> String {
        let mut last = self.last.lock().await;
        let now = app.engine.clock().now();
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| at.is_recent(FRESH, now)) {
            return text.clone();
        }
        let text = collect(app, now).await;
        *last = Some((now, text.clone()));
        text
    }
}

async fn collect(app: &ServerState, now: Timestamp) -> String {
    let mut registry = Registry::with_prefix("tenure");
    let looked = [
        stuck(app, &mut registry).await,
        approvals(app, &mut registry, now).await,
        reclaims(app, &mut registry, now).await,
        gpus(app, &mut registry).await,
        loans(app, &mut registry, now).await,
        waitlists(app, &mut registry).await,
        engines(app, &mut registry).await,
        deliveries(app, &mut registry).await,
        clock(app, &mut registry, now).await,
        holds(app, &mut registry).await,
        closed_tenants(app, &mut registry).await,
        observers(app, &mut registry, now).await,
    ];
    for error in looked.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, "some metrics of the platform's state are unavailable");
    }
    let mut text = String::new();
    // Writing into a string cannot fail.
    _ = encode_registry(&mut text, &registry);
    text
}

/// Counts executions that need an operator, by every possible reason.
async fn stuck(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let family = Family::<ByReason, Gauge>::default();
    for reason in Reason::VARIANTS {
        let name: &str = reason.into();
        let mut count = 0;
        each_open(app, Query::is("reason", name), |_| count += 1).await?;
        family.get_or_create(&ByReason { reason: name.into() }).set(count);
    }
    registry.register("executions_stuck", "Executions that need an operator", family);
    Ok(())
}

/// Counts holds to review, and offboardings that wait for a hold.
async fn holds(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let matters = hold_matters(&app.engine).await?;
    let count =
        |concern: HoldConcern| gauge(matters.iter().filter(|matter| matter.concern == concern).count());
    let due = count(HoldConcern::HoldReviewDue);
    registry.register("holds_review_due", "Holds in force whose review is due", due);
    let held = count(HoldConcern::OffboardingHeld);
    registry.register("offboardings_held", "Offboardings that wait for the release of holds", held);
    Ok(())
}

/// Closed tenants of which something is there, or not known.
async fn closed_tenants(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let looks = all_looks(&app.engine).await?;
    let found = gauge(looks.iter().filter(|look| look.has_findings()).count());
    let help = "Closed tenants with objects that no certificate accounts for";
    registry.register("closed_tenants_found", help, found);
    let unanswered = gauge(looks.iter().filter(|look| !look.unanswered.is_empty()).count());
    let help = "Closed tenants for which a system did not answer if objects exist";
    registry.register("closed_tenants_unanswered", help, unanswered);
    let oldest = looks.iter().map(|look| Timestamp::from(look.at)).min();
    let help = "Time of the oldest last check of a closed tenant, 0 without checks";
    registry.register("closed_tenants_oldest_look_timestamp_seconds", help, moment(oldest));
    Ok(())
}

async fn approvals(app: &ServerState, registry: &mut Registry, now: Timestamp) -> Result<(), Error> {
    let (mut waiting, mut next, mut after) = (0, None, None::<String>);
    loop {
        let found = app.engine.approvals(after.as_deref(), PAGE).await?;
        waiting += found.items.len();
        let deadlines = found.items.iter().filter_map(|case| case.deadline);
        next = deadlines.filter(|deadline| *deadline > now).chain(next).min();
        after = found.next;
        if after.is_none() || waiting >= MOST {
            break;
        }
    }
    registry.register("approvals_waiting", "Open approvals", gauge(waiting));
    let help = "Earliest deadline of an open approval, 0 without open approvals";
    registry.register("approvals_next_deadline_timestamp_seconds", help, moment(next));
    Ok(())
}

async fn reclaims(app: &ServerState, registry: &mut Registry, now: Timestamp) -> Result<(), Error> {
    let (mut open, mut next) = (0, None);
    each_open(app, Query::is("workflow", Reclaim::NAME), |record| {
        open += 1;
        next = promised(record).filter(|promised| *promised > now).into_iter().chain(next).min();
    })
    .await?;
    registry.register("reclaims_open", "Running reclaims", gauge(open));
    let help = "Earliest promised end of a running reclaim, 0 without running reclaims";
    registry.register("reclaims_next_deadline_timestamp_seconds", help, moment(next));
    let mut missed = 0;
    each::<MissedPromise>(app, |_| missed += 1).await?;
    registry.register("reclaims_missed", "Recorded promises of reclaims that were broken", gauge(missed));
    Ok(())
}

/// Returns the promised end from the body of the execution.
fn promised(record: &Record) -> Option<Timestamp> {
    let body: Value = serde_json::from_slice(&record.body).ok()?;
    body.get("promised").and_then(Value::as_u64).map(Timestamp)
}

async fn gpus(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let (all, free) = (Family::<ByCluster, Gauge>::default(), Family::<ByCluster, Gauge>::default());
    each::<FreePool>(app, |pool| {
        let by = ByCluster { cluster: pool.cluster.to_string(), model: pool.model.to_string() };
        all.get_or_create(&by).set(pool.gpus().0.into());
        free.get_or_create(&by).set(pool.free().0.into());
    })
    .await?;
    registry.register("gpus", "GPUs of the fleet", all);
    registry.register("gpus_free", "GPUs on nodes that are free for a tenant", free);
    Ok(())
}

async fn loans(app: &ServerState, registry: &mut Registry, now: Timestamp) -> Result<(), Error> {
    let open = Family::<ByResource, Gauge>::default();
    let overdue = Family::<ByResource, Gauge>::default();
    let lent = Family::<ByResource, Gauge>::default();
    each::<OpenLoans>(app, |list| {
        let by = ByResource { resource: list.resource.to_string() };
        let late = list.open.iter().filter(|loan| loan.due <= now).count();
        let amount = list.open.iter().map(|loan| loan.amount).fold(0, u64::saturating_add);
        open.get_or_create(&by).inc_by(whole(list.open.len()));
        overdue.get_or_create(&by).inc_by(whole(late));
        lent.get_or_create(&by).inc_by(i64::try_from(amount).unwrap_or(i64::MAX));
    })
    .await?;
    registry.register("loans_open", "Open loans between workspaces", open);
    registry.register(
        "loans_overdue",
        "Overdue loans, which are reclaimed when a workload needs them",
        overdue,
    );
    registry.register("loans_lent", "Lent GPUs and slices", lent);
    Ok(())
}

async fn waitlists(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let (waiting, gpus) = (Family::<ByRegion, Gauge>::default(), Family::<ByRegion, Gauge>::default());
    each::<Waitlist>(app, |list| {
        let by = ByRegion { region: list.region.to_string(), model: list.model.to_string() };
        let wanted: u64 = list.waiters.iter().map(|waiter| u64::from(waiter.gpus.0)).sum();
        waiting.get_or_create(&by).set(whole(list.waiters.len()));
        gpus.get_or_create(&by).set(i64::try_from(wanted).unwrap_or(i64::MAX));
    })
    .await?;
    registry.register("waitlist_executions", "Executions that wait for capacity", waiting);
    registry.register("waitlist_gpus", "GPUs that waiting executions need", gpus);
    Ok(())
}

async fn engines(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let family = Family::<ByState, Gauge>::default();
    for state in ["alive", "silent", "ended"] {
        family.get_or_create(&ByState { state: state.into() }).set(0);
    }
    for engine in app.storage.engines().await? {
        let state = engine.get("state").and_then(Value::as_str).unwrap_or_default();
        family.get_or_create(&ByState { state: state.into() }).inc();
    }
    registry.register("engines", "Servers that share the store, by state", family);
    Ok(())
}

/// Reports until when observations of each cluster may be used.
async fn observers(app: &ServerState, registry: &mut Registry, now: Timestamp) -> Result<(), Error> {
    let family = Family::<ByObservedCluster, Moment>::default();
    let life = app.engine.transact(false, |view| Ok(Rules::in_force(view)?.max_staleness)).await?;
    let mut silent = 0;
    each::<Observer>(app, |observer| {
        silent += usize::from(observer.silent_since(now, life).is_some());
        if let Some(freshness) = observer.freshness {
            let seconds = Duration::from_millis(freshness.fresh_until.0).as_secs_f64();
            family.get_or_create(&ByObservedCluster { cluster: observer.cluster.to_string() }).set(seconds);
        }
    })
    .await?;
    let help = "Time until which the last observation of a cluster may be used";
    registry.register("observation_fresh_until_timestamp_seconds", help, family);
    let help = "Observed clusters whose last observation may no longer be used";
    registry.register("observations_silent", help, gauge(silent));
    Ok(())
}

/// Counts open and dead deliveries by channel; a channel without any has zero.
async fn deliveries(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let family = Family::<ByChannel, Gauge>::default();
    for (state, tallies) in [("waiting", app.outbox.waiting().await?), ("dead", app.outbox.dead().await?)] {
        for (channel, tally) in tallies {
            let by = ByChannel { channel: channel.name.clone(), state: state.into() };
            family.get_or_create(&by).set(i64::try_from(tally.count).unwrap_or(i64::MAX));
        }
    }
    registry.register("deliveries", "Waiting and dead notifications by channel", family);
    Ok(())
}

/// Reports how far recorded times are ahead of the clock: schedules are checked every minute, so the clock was then set back.
async fn clock(app: &ServerState, registry: &mut Registry, now: Timestamp) -> Result<(), Error> {
    let mut ahead = Duration::ZERO;
    each::<engine::ScheduleStatus>(app, |standing| {
        ahead = ahead.max(standing.ahead_of(now).unwrap_or_default());
    })
    .await?;
    let behind = Gauge::<f64, AtomicU64>::default();
    behind.set(ahead.as_secs_f64());
    let help = "How far the latest recorded time of a schedule is ahead of the clock, 0 if the clock was not set back";
    registry.register("clock_behind_record_seconds", help, behind);
    let jumped = Gauge::<f64, AtomicU64>::default();
    jumped.set(app.engine.clock_jump().map_or(0.0, |jump| jump.to.since(jump.from).as_secs_f64()));
    let help = "How far the clock jumped forward, until an operator confirms it; 0 otherwise";
    registry.register("clock_jump_unconfirmed_seconds", help, jumped);
    Ok(())
}

/// Visits every open execution that matches `query`.
async fn each_open(app: &ServerState, query: Query, mut take: impl FnMut(&Record)) -> Result<(), Error> {
    let query = Query::is("open", "true").and(query);
    let (mut after, mut seen) = (None, 0);
    loop {
        let found = app.engine.search(&query, after, PAGE).await?;
        found.items.iter().for_each(&mut take);
        seen += found.items.len();
        after = found.next;
        if after.is_none() || seen >= MOST {
            return Ok(());
        }
    }
}

/// Visits every document of a type.
async fn each<E: Entity>(app: &ServerState, mut take: impl FnMut(E)) -> Result<(), Error> {
    let (mut after, mut seen) = (None::<String>, 0);
    loop {
        let found = app.engine.store().documents(E::COLLECTION, "", after.as_deref(), PAGE).await?;
        for document in &found.items {
            let read = serde_json::from_slice(&document.body);
            let corrupt = |e: serde_json::Error| store::Error::Corrupt {
                what: document.key.to_string(),
                why: e.to_string(),
            };
            take(read.map_err(corrupt)?);
        }
        seen += found.items.len();
        after = found.next;
        if after.is_none() || seen >= MOST {
            return Ok(());
        }
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn gauge(count: usize) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(whole(count));
    gauge
}

fn moment(at: Option<Timestamp>) -> Moment {
    let moment = Moment::default();
    moment.set(Duration::from_millis(at.map_or(0, |at| at.0)).as_secs_f64());
    moment
}
