//! One attempt of one action: on a task of its own, within its limits, while its lease is renewed.

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

/// Why an attempt has no result that could be delivered.
pub(crate) enum AttemptLost {
    /// The lease passed to another worker.
    Lease,
    /// The lease could not be prolonged: whether it has passed to another is not known.
    Unheard,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Performs an attempt, after asking what became of an earlier one when that is in doubt.
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
                // That the question found no answer says nothing about the action: its outcome stays unknown, and what is
                // told must say so, or the next attempt would not ask.
                Err(ActionError { class: Class::Pending { .. }, .. }) => Probe::Running,
                Err(error) => {
                    let error = ActionError { class: Class::Unknown, ..error };
                    return Ok(Event::Settled { ticket, result: Err(error), tried: Some(tried) });
                }
            };
            tracing::info!(action = name, ?answer, "asked what became of an earlier attempt");
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
        // What was said last is read again by the attempt that comes after a failure.
        let said = Some(seen.borrow().note.clone()).filter(|note| !note.is_empty());
        let result = result.map_err(|error| ActionError { beat: said.or(error.beat.clone()), ..error });
        self.count(call.execution, (name, &cluster), &result, watch.elapsed());
        if let Err(error) = &result {
            tracing::info!(action = name, attempt = call.attempt, %error, class = ?error.class, "attempt failed");
        }
        Ok(Event::Settled { ticket, result, tried: Some(tried) })
    }

    /// Runs or probes so that a panic is that action's error.
    async fn attempt(
        &self,
        deed: Arc<ErasedAction<P>>,
        call: Call,
        probe: bool,
        limits: AttemptLimits,
        held: &AttemptLease<'_>,
        beats: watch::Receiver<Heartbeat>,
    ) -> Result<Result<Answer, ActionError>, AttemptLost> {
        let bend = if probe { InjectedFault::NoFault } else { self.injected_fault(&deed, &call) };
        let platform = self.inner.platform.clone();
        let number = call.attempt;
        let work = async move { run_action(&deed, &platform, &call, probe, bend).await };
        match poll_once(Box::pin(work.in_current_span())).await {
            Ok(done) => Ok(done),
            // On the heap: an answer that is there at once needs no room for clocks.
            Err(work) => Box::pin(self.run_in_background(work, number, limits, held, beats)).await,
        }
    }

    /// An attempt that takes its time, on a task of its own while the lease is renewed.
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
        // Whoever cannot prolong a lease stops before another may have it.
        let left = held.lease.until.since(self.inner.clock.now());
        let lapse = tokio::time::sleep(usable_lease(left));
        tokio::pin!(lapse);
        let silence = limits.heartbeat.unwrap_or(limits.attempt);
        // Begins anew with every beat, and with nothing else.
        let silent = tokio::time::sleep(silence);
        tokio::pin!(silent);
        loop {
            tokio::select! {
                // An answer counts, however late; then that it was heard of; then what has run out.
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
                    tracing::warn!("the lease could not be prolonged; the attempt is given up before it lapses");
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

    /// When a lease is to be prolonged. Not from `interval`, whose first moment, "at once", comes up to a millisecond later.
    fn renewals(&self) -> tokio::time::Interval {
        let every = self.inner.options.lease / 3;
        tokio::time::interval_at(tokio::time::Instant::now() + every, every)
    }

    /// Prolongs the lease of an attempt, and with it what it holds at its keys. Says whether the store has heard of it.
    async fn stay_leased(&self, held: &AttemptLease<'_>) -> Result<bool, AttemptLost> {
        let lease = self.inner.options.lease;
        let until = self.inner.clock.now().after(lease);
        let renewed = self.inner.store.renew(held.lease.task.id, held.lease.epoch, until);
        // A store that is away may keep its callers waiting.
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

    /// Does `work` while a lease is prolonged: a result that waits to be committed must not be worked on by another meanwhile. The
    /// commit says whether the lease was lost.
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

/// How much of a lease is used: the rest is for clocks that go differently, and for stopping.
fn usable_lease(lease: Duration) -> Duration {
    lease / 10 * 9
}

/// What an attempt has to keep while it runs.
pub(crate) struct AttemptLease<'a> {
    pub(crate) lease: &'a Lease,
    pub(crate) pass: &'a AcquiredLimits,
}

/// An attempt under way.
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
        return Err(ActionError::permanent(
            "engine.kind",
            "a ledger action is not performed on the platform",
        ));
    };
    if probe {
        return action.probe(on, call).await.map(Answer::Probed);
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

/// Begins an attempt where it is called: what need not wait is over with that, and costs no task of its own. What does wait is handed back.
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
        Err(error) => ActionError::unknown("action.panicked", format!("the attempt was cut off: {error}")),
    }
}

fn no_answer(limit: TimeLimit, after: Duration, attempt: u32) -> ActionError {
    let (code, what) = match limit {
        TimeLimit::Heartbeat => ("attempt.silent", "no sign of life"),
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
