//! How things stand, for `/metrics`: what is stuck, what waits for people and until when, what is lent and what is free.
//!
//! Looked up when somebody asks, so that it is told also while nothing moves, and at most once in [`FRESH`]. Each look makes its
//! gauges anew: what has gone is told no more. Labels are bounded: reasons, clusters, regions, models and the channels of the settings,
//! never tenants, people or ids.

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
    reclaim::Reclaim,
    sweeps::{HoldConcern, MissedPromise, hold_matters},
    tenancy::{FreePool, OpenLoans, Waitlist},
};

/// What was looked up is told again so long, however many ask.
const FRESH: Duration = Duration::from_secs(5);
/// Things read in one go.
const PAGE: usize = 500;
/// Of one kind no more are counted: so many are an alarm anyway.
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

/// A moment as Prometheus wants it: seconds since 1970, 0 for none.
type Moment = Gauge<f64, AtomicU64>;

/// The last look, and when it was.
#[derive(Debug, Default)]
pub(crate) struct StatusMetrics {
    last: Mutex<Option<(Timestamp, String)>>,
}

impl StatusMetrics {
    /// The gauges as text, without the mark of its end. What cannot be looked up is left out and said in the log.
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
    ];
    for error in looked.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, "how things stand cannot be told in full");
    }
    let mut text = String::new();
    // Writing into a string does not fail.
    _ = encode_registry(&mut text, &registry);
    text
}

/// Executions that an operator has to look at, by every reason that there is.
async fn stuck(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let family = Family::<ByReason, Gauge>::default();
    for reason in Reason::VARIANTS {
        let name: &str = reason.into();
        let mut count = 0;
        each_open(app, Query::is("reason", name), |_| count += 1).await?;
        family.get_or_create(&ByReason { reason: name.into() }).set(count);
    }
    registry.register("executions_stuck", "Executions that an operator has to look at", family);
    Ok(())
}

/// Holds that a person has to look at, and offboardings that wait for one.
async fn holds(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let matters = hold_matters(&app.engine).await?;
    let count =
        |concern: HoldConcern| gauge(matters.iter().filter(|matter| matter.concern == concern).count());
    let due = count(HoldConcern::HoldReviewDue);
    registry.register("holds_review_due", "Holds in force whose review is due", due);
    let held = count(HoldConcern::OffboardingHeld);
    registry.register("offboardings_held", "Offboardings that wait until no hold is in force", held);
    Ok(())
}

/// Closed tenants of which something is there, or not known.
async fn closed_tenants(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let looks = all_looks(&app.engine).await?;
    let found = gauge(looks.iter().filter(|look| look.has_findings()).count());
    let help = "Closed tenants of which something is there that no certificate accounts for";
    registry.register("closed_tenants_found", help, found);
    let unanswered = gauge(looks.iter().filter(|look| !look.unanswered.is_empty()).count());
    let help = "Closed tenants of which a source did not say whether anything is there";
    registry.register("closed_tenants_unanswered", help, unanswered);
    let oldest = looks.iter().map(|look| Timestamp::from(look.at)).min();
    let help =
        "When the closed tenant was looked at that was not looked at for the longest time, 0 if none was";
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
    registry.register("approvals_waiting", "Approvals that wait for people", gauge(waiting));
    let help = "When the first of the approvals that wait lapses or is extended, 0 if none does";
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
    registry.register("reclaims_open", "Reclaims under way", gauge(open));
    let help = "When the first of the reclaims under way is promised to be over, 0 if none is";
    registry.register("reclaims_next_deadline_timestamp_seconds", help, moment(next));
    let mut missed = 0;
    each::<MissedPromise>(app, |_| missed += 1).await?;
    registry.register("reclaims_missed", "Promises of reclaim on record that were broken", gauge(missed));
    Ok(())
}

/// When its body says that it was promised to be over.
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
    registry.register("gpus", "GPUs of the fleet, whoever has them", all);
    registry.register("gpus_free", "GPUs on nodes that a tenant could be given", free);
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
    registry.register("loans_open", "Loans between workspaces that are open", open);
    registry.register("loans_overdue", "Open loans that are called back as soon as somebody waits", overdue);
    registry.register("loans_lent", "Pieces that are lent", lent);
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
    registry.register("waitlist_gpus", "GPUs that those who wait for capacity want", gpus);
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
    registry.register("engines", "Servers that share the store, by whether they give signs of life", family);
    Ok(())
}

/// What of notifications is not taken, by channel; a channel that is well is told as zero.
async fn deliveries(app: &ServerState, registry: &mut Registry) -> Result<(), Error> {
    let family = Family::<ByChannel, Gauge>::default();
    for (state, tallies) in [("waiting", app.outbox.waiting().await?), ("dead", app.outbox.dead().await?)] {
        for (channel, tally) in tallies {
            let by = ByChannel { channel: channel.name.clone(), state: state.into() };
            family.get_or_create(&by).set(i64::try_from(tally.count).unwrap_or(i64::MAX));
        }
    }
    registry.register("deliveries", "Notifications on their way through a channel, or dead there", family);
    Ok(())
}

/// How far the moments on record are ahead of the clock: schedules are looked at each minute, so it was set back then.
async fn clock(app: &ServerState, registry: &mut Registry, now: Timestamp) -> Result<(), Error> {
    let mut ahead = Duration::ZERO;
    each::<engine::ScheduleStatus>(app, |standing| {
        ahead = ahead.max(standing.ahead_of(now).unwrap_or_default());
    })
    .await?;
    let behind = Gauge::<f64, AtomicU64>::default();
    behind.set(ahead.as_secs_f64());
    let help = "By how much the latest moment on record of a schedule is ahead of the clock, 0 if the clock was not set back";
    registry.register("clock_behind_record_seconds", help, behind);
    let jumped = Gauge::<f64, AtomicU64>::default();
    jumped.set(app.engine.clock_jump().map_or(0.0, |jump| jump.to.since(jump.from).as_secs_f64()));
    let help = "How far the clock jumped forward, until an operator confirms it; 0 if nothing waits for that";
    registry.register("clock_jump_unconfirmed_seconds", help, jumped);
    Ok(())
}

/// Every open execution that `query` finds.
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

/// Every document of a kind.
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
