//! One attempt of one action: in its own task, within its limits, while its lease is renewed.

use super::acquire::AcquiredLimits;
use crate::{
    ActionError, AttemptRecord, Call, Class, Engine, ErasedAction, Event, InjectedFault, Probe, Repeat,
    Stopwatch, TaskRef, TimeLimit, TimedOut,
    model::{
        definition::{action::Heartbeat, erased_action::ErasedActionKind},
        execution::directive::AttemptLimits,
    },
};
use serde_json::Value;
use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use store::{ExecutionId, Lease};
use tokio::sync::watch;
use tracing::Instrument as _;

/// Why an attempt has no result to deliver.
pub(crate) enum AttemptLost {
    /// Another worker has the lease.
    Lease,
    /// The lease could not be renewed; another worker may have it.
    Unheard,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Runs an attempt. If the outcome of an earlier one is in doubt, probes first.
    pub(crate) async fn perform(
        &self,
        deed: ErasedAction<P>,
        mut call: Call,
        doubt: bool,
        limits: AttemptLimits,
        lease: &Lease,
        pass: &AcquiredLimits,
    ) -> Result<Event, AttemptLost> {
        let ticket = TaskRef { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let (beats, seen) = watch::channel(Heartbeat::default());
        call.beats = Some(Arc::new(beats));
        self.inner.limits.listen(lease.task.id, seen.clone());
        let lease = AttemptLease { lease, pass };
        let (name, repeat) = (deed.name, deed.repeat);
        let cluster = deed.cluster().to_owned();
        let deed = Arc::new(deed);
        let tried = AttemptRecord::from_call(name, &call, self.inner.clock.now());
        let watch = Stopwatch::start();
        if doubt {
            let probed = self.attempt(deed.clone(), call.clone(), true, limits, &lease, seen.clone()).await?;
            let answer = match probed {
                Ok(Answer::Probed(answer)) => answer,
                Ok(Answer::Ran(output)) => Probe::Done(output),
                // A failed probe leaves the outcome unknown. The result must say so, or the next attempt would not
                // probe.
                Err(ActionError { class: Class::Pending { .. }, .. }) => Probe::Running,
                Err(error) => {
                    let error = ActionError { class: Class::Unknown, ..error };
                    return Ok(Event::Settled { ticket, result: Err(error), tried: Some(tried) });
                }
            };
            tracing::info!(action = name, ?answer, "probed for the outcome of an earlier attempt");
            match (&answer, repeat) {
                (Probe::NotDone, _) | (Probe::CannotTell, Repeat::Safe) => {}
                (Probe::Done(_) | Probe::Running | Probe::Gone, _)
                | (Probe::CannotTell, Repeat::AfterProbe) => {
                    return Ok(Event::Probed { ticket, answer });
                }
            }
        }
        let ran = self.attempt(deed, call.clone(), false, limits, &lease, seen.clone()).await?;
        let result = ran.map(|answer| match answer {
            Answer::Ran(output) => output,
            Answer::Probed(_) => Value::Null,
        });
        // The next attempt after a failure reads the last note.
        let said = Some(seen.borrow().note.clone()).filter(|note| !note.is_empty());
        let result = result.map_err(|error| ActionError { beat: said.or(error.beat.clone()), ..error });
        self.count(call.execution, (name, &cluster), &result, watch.elapsed());
        if let Err(error) = &result {
            tracing::info!(action = name, attempt = call.attempt, %error, class = ?error.class, "attempt failed");
        }
        Ok(Event::Settled { ticket, result, tried: Some(tried) })
    }

    /// Runs or probes. A panic becomes an error of the action.
    async fn attempt(
        &self,
        deed: Arc<ErasedAction<P>>,
        call: Call,
        probe: bool,
        limits: AttemptLimits,
        held: &AttemptLease<'_>,
        beats: watch::Receiver<Heartbeat>,
    ) -> Result<Result<Answer, ActionError>, AttemptLost> {
        let bend =
            if probe { self.injected_probe_fault(&deed, &call) } else { self.injected_fault(&deed, &call) };
        let platform = self.inner.platform.clone();
        let number = call.attempt;
        let work = async move { run_action(&deed, &platform, &call, probe, bend).await };
        match poll_once(Box::pin(work.in_current_span())).await {
            Ok(done) => Ok(done),
            // On the heap: an immediate answer needs no room for timers.
            Err(work) => Box::pin(self.run_in_background(work, number, limits, held, beats)).await,
        }
    }

    /// Runs an attempt that takes time, in its own task while the lease is renewed.
    async fn run_in_background(
        &self,
        work: Attempted,
        number: u32,
        limits: AttemptLimits,
        held: &AttemptLease<'_>,
        mut beats: watch::Receiver<Heartbeat>,
    ) -> Result<Result<Answer, ActionError>, AttemptLost> {
        let mut work = AbortOnDrop(tokio::spawn(work));
        let deadline = tokio::time::sleep(limits.attempt);
        tokio::pin!(deadline);
        let mut renew = self.renewals();
        // An attempt whose lease cannot be renewed stops before another worker can get the lease.
        let left = held.lease.until.since(self.inner.clock.now());
        let lapse = tokio::time::sleep(usable_lease(left));
        tokio::pin!(lapse);
        let silence = limits.heartbeat.unwrap_or(limits.attempt);
        // Restarts with every heartbeat, and only then.
        let silent = tokio::time::sleep(silence);
        tokio::pin!(silent);
        loop {
            tokio::select! {
                // Priority: an answer, even a late one; then a heartbeat; then an expired limit.
                biased;
                done = &mut work.0 => return Ok(done.unwrap_or_else(|panic| Err(join_error(panic)))),
                Ok(()) = beats.changed(), if limits.heartbeat.is_some() => {
                    silent.as_mut().reset(tokio::time::Instant::now() + silence);
                }
                () = &mut deadline => return Ok(Err(no_answer(TimeLimit::Attempt, limits.attempt, number))),
                () = &mut silent, if limits.heartbeat.is_some() => {
                    return Ok(Err(no_answer(TimeLimit::Heartbeat, silence, number)));
                }
                () = &mut lapse => {
                    tracing::warn!("the lease could not be renewed; the attempt is given up before the lease expires");
                    return Err(AttemptLost::Unheard);
                }
                () = held.pass.revoked.notified() => {
                    self.stay_leased(held).await?;
                }
                _ = renew.tick() => if self.stay_leased(held).await? {
                    lapse.as_mut().reset(tokio::time::Instant::now() + usable_lease(self.inner.options.lease));
                },
            }
        }
    }

    /// Ticks when a lease must be renewed. `interval` is not used: its immediate first tick comes up to a millisecond
    /// late.
    fn renewals(&self) -> tokio::time::Interval {
        let every = self.inner.options.lease / 3;
        tokio::time::interval_at(tokio::time::Instant::now() + every, every)
    }

    /// Renews the lease of an attempt, and with it its permits. Returns true if the store answered.
    async fn stay_leased(&self, held: &AttemptLease<'_>) -> Result<bool, AttemptLost> {
        let lease = self.inner.options.lease;
        let until = self.inner.clock.now().after(lease);
        let renewed = self.inner.store.renew(held.lease.task.id, held.lease.epoch, until);
        // A store that is unavailable may block its callers.
        let renewed = tokio::time::timeout(lease / 4, renewed).await;
        if let Ok(Err(store::Error::Fenced { .. })) = renewed {
            return Err(AttemptLost::Lease);
        }
        let heard = matches!(renewed, Ok(Ok(())));
        if heard {
            _ = tokio::time::timeout(lease / 4, self.renew_permits(held.pass, until)).await;
        }
        Ok(heard)
    }

    /// Runs `work` while a lease is renewed: no other worker may repeat a result that waits for its commit. The
    /// commit finds out whether the lease was lost.
    pub(crate) async fn while_leased<T>(
        &self,
        held: &AttemptLease<'_>,
        work: impl Future<Output = T> + Send,
    ) -> T {
        tokio::pin!(work);
        let mut renew = self.renewals();
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = renew.tick() => {
                    _ = Box::pin(self.stay_leased(held)).await;
                }
            }
        }
    }

    pub(crate) fn injected_fault(&self, deed: &ErasedAction<P>, call: &Call) -> InjectedFault {
        self.inner
            .options
            .fault_injector
            .as_ref()
            .map_or(InjectedFault::NoFault, |tap| tap.inject(deed.name, &deed.arguments, call))
    }

    fn injected_probe_fault(&self, deed: &ErasedAction<P>, call: &Call) -> InjectedFault {
        let injector = self.inner.options.fault_injector.as_ref();
        let error = injector.and_then(|tap| tap.inject_probe(deed.name, &deed.arguments, call));
        error.map_or(InjectedFault::NoFault, InjectedFault::After)
    }

    pub(crate) fn count(
        &self,
        id: ExecutionId,
        (name, cluster): (&str, &str),
        result: &Result<Value, ActionError>,
        took: Duration,
    ) {
        let result = match result {
            Ok(_) => "ok",
            Err(error) => match error.class {
                Class::Transient => "transient",
                Class::Pending { .. } => "pending",
                Class::Permanent => "permanent",
                Class::Unknown => "unknown",
            },
        };
        self.inner.metrics.attempted(id, (name, cluster), result, took);
    }
}

/// Returns the usable part of a lease. The rest allows for clock differences and for stopping.
fn usable_lease(lease: Duration) -> Duration {
    lease / 10 * 9
}

/// The leases of a running attempt.
pub(crate) struct AttemptLease<'a> {
    pub(crate) lease: &'a Lease,
    pub(crate) pass: &'a AcquiredLimits,
}

/// A running attempt.
type Attempted = Pin<Box<dyn Future<Output = Result<Answer, ActionError>> + Send>>;

#[derive(Debug)]
enum Answer {
    Ran(Value),
    Probed(Probe<Value>),
}

async fn run_action<P>(
    deed: &ErasedAction<P>,
    on: &P,
    call: &Call,
    probe: bool,
    bend: InjectedFault,
) -> Result<Answer, ActionError> {
    let ErasedActionKind::Actuator(action) = &deed.kind else {
        return Err(ActionError::permanent("engine.kind", "a ledger action does not run on the platform"));
    };
    if probe {
        let answer = action.probe(on, call).await?;
        return match (answer, bend) {
            (Probe::Done(_), InjectedFault::After(error)) => Err(error),
            (answer, _) => Ok(Answer::Probed(answer)),
        };
    }
    match bend {
        InjectedFault::NoFault => action.run(on, call).await.map(Answer::Ran),
        InjectedFault::Before(error) => Err(error),
        InjectedFault::After(error) => action.run(on, call).await.and(Err(error)),
        InjectedFault::Twice => {
            action.run(on, call).await?;
            action.run(on, call).await.map(Answer::Ran)
        }
    }
}

/// Polls an attempt once, in place: work that completes at once needs no task. Returns the attempt if it is not
/// complete.
async fn poll_once(mut work: Attempted) -> Result<Result<Answer, ActionError>, Attempted> {
    let polled = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        Poll::Ready(polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic)))))
    });
    match polled.await {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => Err(work),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> ActionError {
    let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let said = said.map_or_else(String::new, |said| format!(": {said}"));
    ActionError::permanent("action.panicked", format!("a bug in the action: it panicked{said}"))
}

fn join_error(error: tokio::task::JoinError) -> ActionError {
    match error.try_into_panic() {
        Ok(panic) => panicked(&*panic),
        Err(error) => ActionError::unknown("action.panicked", format!("the attempt was aborted: {error}")),
    }
}

fn no_answer(limit: TimeLimit, after: Duration, attempt: u32) -> ActionError {
    let (code, what) = match limit {
        TimeLimit::Heartbeat => ("attempt.silent", "no heartbeat"),
        TimeLimit::Attempt | TimeLimit::Budget | TimeLimit::State => ("attempt.timeout", "no answer"),
    };
    let timed_out = Some(TimedOut { limit, attempt });
    ActionError { timed_out, ..ActionError::unknown(code, format!("{what} within {after:?}")) }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);
impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
