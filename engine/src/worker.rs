//! The worker: lease, perform, commit, sleep. If it decided anything, that would belong in the core.

use crate::{
    ActionError, Call, Class, Deed, Engine, Error, Event, Probe, Refusal, Repeat, Stopwatch, Ticket,
    action::{Beat, DeedKind, MINUTE, SECOND},
    ledger::decide,
    settle::POISONED,
    transition::{Directive, Limits},
};
use serde_json::Value;
use std::{fmt, future::Future, sync::Arc, time::Duration};
use store::{Commit, Epoch, Lease, Settle, TaskId};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};
use tracing::Instrument as _;

/// Bends attempts, so that a sweep can try every way in which one can go wrong.
pub trait Tap: Send + Sync + 'static {
    /// What to do to the attempt of the action `name` that `call` describes.
    fn bend(&self, name: &str, arguments: &Value, call: &Call) -> Bend;
}

/// One way to bend an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Bend {
    /// Leave it alone.
    Not,
    /// Report this without performing it.
    Before(ActionError),
    /// Perform it, and report this.
    After(ActionError),
    /// Perform it twice.
    Twice,
}

/// Why an attempt has no result that could be delivered.
enum Lost {
    /// The lease passed to another worker.
    Lease,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Works until `stop` resolves, then drains: leases no more, lets work in flight end within
    /// [`Options::drain`](crate::Options::drain), and hands back the rest.
    ///
    /// # Errors
    /// When the store fails in a way that waiting does not mend.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let places = Arc::new(Semaphore::new(self.inner.options.concurrency));
        let mut working: JoinSet<()> = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let wait = match self.dispatch(&places, &mut working).await {
                Ok(wait) => wait,
                Err(error @ store::Error::Refused { .. }) => return Err(error.into()),
                Err(error) => {
                    tracing::error!(%error, "the store cannot be asked for work; trying again");
                    SECOND
                }
            };
            let now = self.inner.clock.now();
            tokio::select! {
                () = &mut stop => break,
                () = self.inner.due.notified(), if places.available_permits() > 0 => {}
                () = self.inner.clock.sleep_until(now.after(wait)) => {}
                Some(_) = working.join_next(), if !working.is_empty() => {}
            }
        }
        tracing::info!(in_flight = working.len(), "stopping: waiting for work in flight");
        let drained = async { while working.join_next().await.is_some() {} };
        if tokio::time::timeout(self.inner.options.drain, drained).await.is_err() {
            tracing::warn!("work in flight did not end in time; it is handed back");
        }
        Ok(())
    }

    /// Leases what is due, as far as there are places, and says how long there is nothing more to do.
    async fn dispatch(
        &self,
        places: &Arc<Semaphore>,
        working: &mut JoinSet<()>,
    ) -> Result<Duration, store::Error> {
        loop {
            let free = places.available_permits();
            if free == 0 {
                return Ok(MINUTE);
            }
            let now = self.inner.clock.now();
            let options = &self.inner.options;
            let leases = self.inner.store.lease(&options.holder, now, options.lease, free).await?;
            if leases.is_empty() {
                let next = self.inner.store.next_due().await?;
                return Ok(next
                    .map_or(MINUTE, |next| next.since(now))
                    .clamp(Duration::from_millis(1), MINUTE));
            }
            for lease in leases {
                let Ok(place) = places.clone().try_acquire_owned() else { break };
                let engine = self.clone();
                working.spawn(async move { engine.work_in(place, lease).await });
            }
            while working.try_join_next().is_some() {}
        }
    }

    async fn work_in(self, place: OwnedSemaphorePermit, lease: Lease) {
        self.inner.metrics.in_flight(1);
        let give_back =
            HandBack { engine: self.clone(), task: lease.task.id, epoch: lease.epoch, armed: true };
        self.work(lease).await;
        give_back.done();
        self.inner.metrics.in_flight(-1);
        drop(place);
    }

    /// Performs everything that is due, one task after the other, until nothing is. For tests and examples.
    ///
    /// # Errors
    /// The store's.
    pub async fn run_until_idle(&self) -> Result<usize, Error> {
        let mut worked = 0;
        while self.work_next().await? {
            worked += 1;
        }
        Ok(worked)
    }

    /// Performs the task that is due first, if one is, and says whether there was one.
    ///
    /// # Errors
    /// The store's.
    pub async fn work_next(&self) -> Result<bool, Error> {
        let options = &self.inner.options;
        let leases =
            self.inner.store.lease(&options.holder, self.inner.clock.now(), options.lease, 1).await?;
        let Some(lease) = leases.into_iter().next() else { return Ok(false) };
        self.work(lease).await;
        Ok(true)
    }

    /// One task, from lease to commit. What goes wrong is told by the store or the next delivery, never lost.
    async fn work(&self, lease: Lease) {
        let (task, epoch) = (lease.task.id, lease.epoch);
        let span =
            tracing::info_span!("task", execution = %task.execution, visit = task.visit, slot = task.slot);
        let worked = self.try_work(lease).instrument(span.clone()).await;
        let _in = span.enter();
        let later = |delay| self.inner.clock.now().after(delay);
        let put_off = match worked {
            Ok(()) => return,
            Err(Error::Refused(Refusal::Stale | Refusal::Finished | Refusal::Unexpected { .. })) => {
                tracing::debug!("the execution has moved on; the result is dropped");
                drop(_in);
                return self.forget(task, epoch).await;
            }
            Err(Error::Store(store::Error::Fenced { .. })) => {
                self.inner.metrics.fenced();
                tracing::warn!(epoch = epoch.0, "a late result was refused");
                drop(_in);
                return self.note_fenced(task, epoch).await;
            }
            Err(error @ (Error::NoWorker { .. } | Error::NotFound(_))) => {
                tracing::warn!(%error, "left alone");
                MINUTE
            }
            Err(error @ (Error::Unreadable { .. } | Error::Store(store::Error::Corrupt { .. }))) => {
                self.inner.metrics.unreadable();
                tracing::error!(%error, "an execution cannot be read; the others go on");
                10 * MINUTE
            }
            Err(error) => {
                tracing::error!(%error, "a result could not be committed; the task will be delivered again");
                SECOND
            }
        };
        drop(_in);
        if let Err(error) = self.inner.store.release(task, epoch, later(put_off)).await {
            tracing::warn!(%task, %error, "a task could not be handed back; its lease will lapse");
        }
    }

    async fn try_work(&self, lease: Lease) -> Result<(), Error> {
        let id = lease.task.id.execution;
        let ticket = Ticket { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let settle = Some(Settle { task: lease.task.id, epoch: lease.epoch });
        let record = self.record(id).await?;
        let machine = self.machine(&record.workflow, record.schema)?;
        if lease.deliveries > 1 {
            self.inner.metrics.redelivered();
        }
        let event = match machine.directive(&record, ticket)? {
            Directive::Drop => {
                self.forget(lease.task.id, lease.epoch).await;
                return Ok(());
            }
            Directive::Ring => Event::DeadlinePassed { visit: ticket.visit },
            Directive::GiveUp(error) => Event::Settled { ticket, result: Err(error) },
            Directive::Run { .. } if lease.deliveries > self.inner.options.poison_after => {
                let error = format!("delivered {} times without a result", lease.deliveries - 1);
                Event::Settled { ticket, result: Err(ActionError::permanent(POISONED, error)) }
            }
            Directive::Run { deed, state, entered, slot, undo, failed, doubt, limits } => {
                let attempt = failed + lease.deliveries;
                let call = Call {
                    execution: id,
                    state,
                    entered,
                    slot,
                    undo,
                    attempt,
                    epoch: lease.epoch,
                    beats: None,
                };
                let doubt = doubt || lease.deliveries > 1;
                if matches!(deed.kind, DeedKind::Ledger(_)) {
                    return self.settle_ledger(&lease, &call).await;
                }
                match self.perform(deed, call, doubt, limits, &lease, ticket).await {
                    Ok(event) => event,
                    Err(Lost::Lease) => return Err(fenced(&lease)),
                }
            }
        };
        self.deliver_settling(id, event, settle).await.map(|_| ())
    }

    /// Decides a ledger action and commits its writes with the transition, on what it read; again on conflict.
    async fn settle_ledger(&self, lease: &Lease, call: &Call) -> Result<(), Error> {
        let id = lease.task.id.execution;
        let ticket = Ticket { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let settle = Some(Settle { task: lease.task.id, epoch: lease.epoch });
        for _ in 0..64 {
            let record = self.record(id).await?;
            let machine = self.machine(&record.workflow, record.schema)?;
            let Directive::Run { deed, .. } = machine.directive(&record, ticket)? else {
                return Err(Refusal::Stale.into());
            };
            let DeedKind::Ledger(action) = &deed.kind else { return Err(Refusal::Stale.into()) };
            let watch = Stopwatch::start();
            let decided = match self.bend(&deed, call) {
                Bend::Before(error) | Bend::After(error) => Err(error),
                Bend::Not | Bend::Twice => {
                    decide(&*self.inner.store, self.inner.clock.now(), |view| action.decide(view, call))
                        .await?
                }
            };
            let (result, changes) = match decided {
                Ok((output, reads, puts)) => (Ok(output), (reads, puts)),
                Err(error) => (Err(error), (vec![], vec![])),
            };
            self.count(deed.name, &result, watch.elapsed());
            let next = machine.advance(&record, Event::Settled { ticket, result }, self.inner.clock.now())?;
            match self.commit(Some(record.revision), next, settle, changes).await {
                Err(Error::Store(store::Error::Conflict { .. })) => self.inner.metrics.conflict(),
                other => return other.map(|_| ()),
            }
        }
        Err(Error::Contended(id))
    }

    /// Performs an attempt, after asking what became of an earlier one when that is in doubt.
    async fn perform(
        &self,
        deed: Deed<P>,
        mut call: Call,
        doubt: bool,
        limits: Limits,
        lease: &Lease,
        ticket: Ticket,
    ) -> Result<Event, Lost> {
        let (beats, seen) = watch::channel(Beat::default());
        call.beats = Some(Arc::new(beats));
        let (name, repeat) = (deed.name, deed.repeat);
        let deed = Arc::new(deed);
        let watch = Stopwatch::start();
        if doubt {
            let probed = self.attempt(deed.clone(), call.clone(), true, limits, lease, seen.clone()).await?;
            let answer = match probed {
                Ok(Answer::Probed(answer)) => answer,
                Ok(Answer::Ran(output)) => Probe::Done(output),
                // That the question found no answer says nothing about the action: its outcome stays unknown.
                Err(error) => {
                    let error = ActionError { class: unknown_unless_pending(error.class), ..error };
                    return Ok(Event::Settled { ticket, result: Err(error) });
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
        let ran = self.attempt(deed, call.clone(), false, limits, lease, seen).await?;
        let result = ran.map(|answer| match answer {
            Answer::Ran(output) => output,
            Answer::Probed(_) => Value::Null,
        });
        self.count(name, &result, watch.elapsed());
        if let Err(error) = &result {
            tracing::info!(action = name, attempt = call.attempt, %error, class = ?error.class, "attempt failed");
        }
        Ok(Event::Settled { ticket, result })
    }

    /// Runs or probes on a task of its own, so that a panic is that action's error, while the lease is renewed.
    async fn attempt(
        &self,
        deed: Arc<Deed<P>>,
        call: Call,
        probe: bool,
        limits: Limits,
        lease: &Lease,
        mut beats: watch::Receiver<Beat>,
    ) -> Result<Result<Answer, ActionError>, Lost> {
        let bend = if probe { Bend::Not } else { self.bend(&deed, &call) };
        let platform = self.inner.platform.clone();
        let work = async move { run_deed(&deed, &platform, &call, probe, bend).await };
        let mut work = AbortOnDrop(tokio::spawn(work.in_current_span()));
        let deadline = tokio::time::sleep(limits.attempt);
        tokio::pin!(deadline);
        let renew_every = self.inner.options.lease / 3;
        let mut renew = tokio::time::interval(renew_every);
        renew.tick().await;
        let silence = limits.heartbeat.unwrap_or(limits.attempt);
        loop {
            tokio::select! {
                done = &mut work.0 => return Ok(done.unwrap_or_else(|panic| Err(panicked(&panic)))),
                () = &mut deadline => return Ok(Err(no_answer("attempt.timeout", limits.attempt))),
                heard = tokio::time::timeout(silence, beats.changed()), if limits.heartbeat.is_some() => {
                    if heard.is_err() {
                        return Ok(Err(no_answer("attempt.silent", silence)));
                    }
                }
                _ = renew.tick() => {
                    let until = self.inner.clock.now().after(self.inner.options.lease);
                    if let Err(store::Error::Fenced { .. }) = self.inner.store.renew(lease.task.id, lease.epoch, until).await {
                        return Err(Lost::Lease);
                    }
                }
            }
        }
    }

    fn bend(&self, deed: &Deed<P>, call: &Call) -> Bend {
        self.inner.options.tap.as_ref().map_or(Bend::Not, |tap| tap.bend(deed.name, &deed.arguments, call))
    }

    fn count(&self, name: &str, result: &Result<Value, ActionError>, took: Duration) {
        let result = match result {
            Ok(_) => "ok",
            Err(error) => match error.class {
                Class::Transient => "transient",
                Class::Pending { .. } => "pending",
                Class::Permanent => "permanent",
                Class::Unknown => "unknown",
            },
        };
        self.inner.metrics.attempted(name, result, took);
    }

    /// Removes a task that is of no use any more.
    async fn forget(&self, task: TaskId, epoch: Epoch) {
        let commit = Commit { settle: Some(Settle { task, epoch }), ..Commit::default() };
        match self.inner.store.commit(commit).await {
            Ok(_) | Err(store::Error::Fenced { .. }) => {}
            Err(error) => {
                tracing::warn!(%task, %error, "a stale task could not be removed; it will be delivered again")
            }
        }
    }

    /// A late worker's result was refused: that is part of the execution's history.
    async fn note_fenced(&self, task: TaskId, epoch: Epoch) {
        let Ok(Some(record)) = self.inner.store.load(task.execution).await else { return };
        let entry = store::Entry {
            sequence: store::Sequence(0),
            execution: task.execution,
            at: self.inner.clock.now(),
            actor: self.inner.options.holder.clone(),
            event: "fenced".into(),
            from: record.state.clone(),
            to: record.state,
            detail: serde_json::to_vec(&serde_json::json!({ "task": task.to_string(), "epoch": epoch.0 }))
                .unwrap_or_default(),
        };
        let commit = Commit { journal: vec![entry], ..Commit::default() };
        if let Err(error) = self.inner.store.commit(commit).await {
            tracing::warn!(%error, "the refusal of a late result could not be written to the journal");
        }
    }
}

#[derive(Debug)]
enum Answer {
    Ran(Value),
    Probed(Probe<Value>),
}

async fn run_deed<P>(
    deed: &Deed<P>,
    on: &P,
    call: &Call,
    probe: bool,
    bend: Bend,
) -> Result<Answer, ActionError> {
    let DeedKind::Actuator(action) = &deed.kind else {
        return Err(ActionError::permanent(
            "engine.kind",
            "a ledger action is not performed on the platform",
        ));
    };
    if probe {
        return action.probe(on, call).await.map(Answer::Probed);
    }
    match bend {
        Bend::Not => action.run(on, call).await.map(Answer::Ran),
        Bend::Before(error) => Err(error),
        Bend::After(error) => action.run(on, call).await.and(Err(error)),
        Bend::Twice => {
            action.run(on, call).await?;
            action.run(on, call).await.map(Answer::Ran)
        }
    }
}

fn panicked(panic: &tokio::task::JoinError) -> ActionError {
    ActionError::permanent("action.panicked", format!("a bug in the action: {panic}"))
}

fn no_answer(code: &str, after: Duration) -> ActionError {
    ActionError::unknown(code, format!("no answer within {after:?}"))
}

fn unknown_unless_pending(class: Class) -> Class {
    match class {
        Class::Pending { after } => Class::Pending { after },
        Class::Transient | Class::Permanent | Class::Unknown => Class::Unknown,
    }
}

fn fenced(lease: &Lease) -> Error {
    store::Error::Fenced { task: lease.task.id, epoch: lease.epoch }.into()
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);
impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Hands a task back when its worker is dropped half way, as in a stop that could not wait.
struct HandBack<P: Send + Sync + 'static> {
    engine: Engine<P>,
    task: TaskId,
    epoch: Epoch,
    armed: bool,
}
impl<P: Send + Sync + 'static> HandBack<P> {
    fn done(mut self) {
        self.armed = false;
    }
}
impl<P: Send + Sync + 'static> Drop for HandBack<P> {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.armed, tokio::runtime::Handle::try_current()) {
            let (engine, task, epoch) = (self.engine.clone(), self.task, self.epoch);
            runtime.spawn(
                async move { engine.inner.store.release(task, epoch, engine.inner.clock.now()).await },
            );
        }
    }
}

impl<P> fmt::Debug for Engine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("holder", &self.inner.options.holder).finish_non_exhaustive()
    }
}
