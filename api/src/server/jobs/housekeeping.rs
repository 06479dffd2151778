//! Periodic work of the server: wakes waitlists, starts due sweeps, and removes expired answers.

use crate::{
    auth::{Enrolment, Session, SignIn, record_expiries},
    http::middleware::{idempotency, idempotency_lock::KeyState},
    notify::{DeadDelivery, LastNotified, SettledDelivery},
    state::{ServerState, SharedState},
};
use engine::{Engine, Entity as _, Error, Schedule, TriggerRequest};
use std::{collections::BTreeMap, time::Duration};
use store::{ExecutionId, Sequence, Timestamp};
use tokio::sync::watch;
use workflows::{
    ledger::waiting,
    onboarding::CAPACITY_FREED,
    platform::Platform,
    sweeps::{self, expire},
    tenancy::{FreePool, Waitlist},
};

/// The number of waitlists read at once.
const PAGE: usize = 1_000;
/// Executions change in bursts; one check serves all changes within this time.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let every = app.config.waitlist.every.0;
    let mut keeper = WaitlistWaker { woken: BTreeMap::new() };
    let clock = app.engine.clock().clone();
    let forgetting = idempotency::cleanup_schedule();
    loop {
        if !app.free(&mut stop).await {
            return;
        }
        if let Err(error) = keeper.wake(&app).await {
            tracing::warn!(%error, "cannot check the waitlists; trying again");
        }
        if let Err(error) = sweeps::run_due(&app.engine).await {
            tracing::warn!(%error, "cannot start due sweeps; trying again");
        }
        if let Err(error) = delete_expired_if_due(&app, &forgetting).await {
            tracing::warn!(%error, "cannot remove expired answers; trying again in an hour");
        }
        let now = clock.now();
        let due = next_due(&app, &forgetting, now).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the next due time of sweeps; trying again");
            None
        });
        let next = due.map_or(now.after(every), |due| due.min(now.after(every)));
        let next_look = async {
            tokio::select! {
                () = app.freed.notified() => clock.sleep_until(clock.now().after(PAUSE)).await,
                () = clock.sleep_until(next) => {}
            }
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = next_look => {}
        }
    }
}

/// Returns the first due time of built-in schedules after `now`, so that it does not wait for the next check.
async fn next_due(
    app: &ServerState,
    forgetting: &Schedule,
    now: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    let sweeps = sweeps::schedules(&app.engine).await?;
    let all = sweeps.iter().map(|(_, schedule)| schedule).chain([forgetting]);
    let next = |schedule: &Schedule| schedule.upcoming(now, 1).ok()?.first().map(|next| next.due);
    Ok(all.filter_map(next).min())
}

/// Remembers the free stock with which each waiter was last woken, so that none is woken twice for the same stock.
struct WaitlistWaker {
    woken: BTreeMap<ExecutionId, Sequence>,
}

impl WaitlistWaker {
    /// Wakes the oldest waiter of each list that the free stock can serve.
    async fn wake(&mut self, app: &ServerState) -> Result<(), Error> {
        let engine = &app.engine;
        let mut after = None;
        loop {
            let found = engine.store().documents(Waitlist::COLLECTION, "", after.as_deref(), PAGE).await?;
            for document in &found.items {
                let list: Waitlist = serde_json::from_slice(&document.body).map_err(|e| {
                    store::Error::Corrupt { what: document.key.to_string(), why: e.to_string() }
                })?;
                if !list.waiters.is_empty() {
                    self.wake_first(engine, &list).await?;
                }
            }
            after = found.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn wake_first(&mut self, engine: &Engine<Platform>, list: &Waitlist) -> Result<(), Error> {
        let first = engine.transact(false, |view| waiting(view, &list.region, &list.model)).await?;
        let Some(first) = first else { return Ok(()) };
        let stock = newest(engine).await?;
        if self.woken.get(&first).is_some_and(|seen| *seen == stock) {
            return Ok(());
        }
        tracing::info!(execution = %first, trace_id = %first.trace_id(), region = %list.region, model = %list.model, "capacity is free: a waiting execution continues");
        engine.signal(first, CAPACITY_FREED).await?;
        self.woken.retain(|id, _| list.waiters.iter().any(|waits| waits.execution == *id));
        self.woken.insert(first, stock);
        Ok(())
    }
}

/// Returns the last change of any pool: without a new one, no capacity has become free.
async fn newest(engine: &Engine<Platform>) -> Result<Sequence, Error> {
    let (mut newest, mut after) = (Sequence(0), None);
    loop {
        let found = engine.store().documents(FreePool::COLLECTION, "", after.as_deref(), PAGE).await?;
        newest = found.items.iter().map(|pool| pool.version).max().unwrap_or(newest).max(newest);
        after = found.next;
        if after.is_none() {
            return Ok(newest);
        }
    }
}

/// Returns true in the hour in which old documents are removed: 03:00 UTC.
fn is_daily(hour: Timestamp) -> bool {
    hour.0 / 3_600_000 % 24 == 3
}

async fn delete_expired_if_due(app: &ServerState, forgetting: &Schedule) -> Result<(), Error> {
    // After a jump of the clock nothing is removed until an operator confirms it; the occurrence stays due.
    if app.engine.clock_jump().is_some() || app.engine.refuses_work() {
        return Ok(());
    }
    let Some(occurrence) = app.engine.claim_occurrence(forgetting).await? else { return Ok(()) };
    let mut done = delete_expired(app).await;
    if done.is_ok() && is_daily(occurrence.nominal) {
        done = delete_old_documents(app).await;
    }
    let failed = done.as_ref().err().map(ToString::to_string);
    app.engine.end_occurrence(&occurrence, failed.as_deref()).await?;
    done
}

/// Removes expired answers of `Idempotency-Key`s, and expired sessions.
async fn delete_expired(app: &ServerState) -> Result<(), Error> {
    let engine = &app.engine;
    expire::<KeyState>(engine, |_, _| Ok(false)).await?;
    expire::<TriggerRequest>(engine, |_, _| Ok(false)).await?;
    record_expiries(&**engine.store(), engine.clock().now()).await?;
    expire::<Session>(engine, |_, _| Ok(false)).await?;
    expire::<Enrolment>(engine, |_, _| Ok(false)).await?;
    expire::<SignIn>(engine, |_, _| Ok(false)).await?;
    Ok(())
}

/// Removes documents whose retention period is over, unless a legal hold of the tenant keeps them.
async fn delete_old_documents(app: &ServerState) -> Result<(), Error> {
    let engine = &app.engine;
    let mut gone = sweeps::expire_documents(engine).await?;
    gone += expire::<SettledDelivery>(engine, |_, _| Ok(false)).await?;
    gone += expire::<DeadDelivery>(engine, |_, _| Ok(false)).await?;
    gone += expire::<LastNotified>(engine, |_, _| Ok(false)).await?;
    gone += engine.expire_own_documents(&sweeps::tenants_on_hold(engine).await?).await?;
    if gone > 0 {
        tracing::info!(gone, "removed documents whose retention period is over");
    }
    Ok(())
}
