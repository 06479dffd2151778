//! The worker: lease, perform, commit, sleep. If it decided anything, that would belong in the core.

use crate::{
    ActionError, Call, Class, Engine, Error, Event, Refusal, Stopwatch, Ticket, Tried,
    core::{
        directive::{Directive, Work},
        slots::{POISONED, TOO_LATE},
    },
    model::{
        action::{DeedKind, MINUTE, SECOND},
        message::Message,
        view::{Decided, decide_knowing},
    },
    runtime::{
        attempts::perform::Bend,
        engine::{Also, MOST_TRIES},
    },
};
use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::{Commit, Epoch, Lease, Settle, TaskId, Timestamp};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tracing::Instrument as _;

impl<P: Send + Sync + 'static> Engine<P> {
    /// Works until `stop` resolves, then drains: leases no more, lets work in flight end within
    /// [`Options::drain`](crate::Options::drain), and hands back the rest.
    ///
    /// # Errors
    /// When the store fails in a way that waiting does not mend.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let places = Arc::new(Semaphore::new(self.inner.options.concurrency));
        let mut working: JoinSet<()> = JoinSet::new();
        let closing = Closing::default();
        tokio::pin!(stop);
        loop {
            if let Some(others_first) = self.inner.elsewhere.yields(self.inner.clock.now()) {
                tokio::time::sleep(others_first).await;
            }
            self.inner.due.look();
            let wait = match self.dispatch(&places, &mut working, &closing).await {
                Ok(wait) => wait,
                Err(error @ store::Error::Refused { .. }) => return Err(error.into()),
                Err(error) => {
                    tracing::error!(%error, "the store cannot be asked for work; trying again");
                    SECOND
                }
            };
            let until = self.inner.clock.now().after(wait);
            self.inner.due.sleep(until);
            tokio::select! {
                // To stop goes before everything, and what is over is cleared away before more is begun.
                biased;
                () = &mut stop => break,
                Some(_) = working.join_next(), if !working.is_empty() => {}
                () = self.inner.due.rung(), if places.available_permits() > 0 => {}
                () = self.inner.store.notified(), if places.available_permits() > 0 => {}
                () = self.inner.clock.sleep_until(until) => {}
            }
        }
        closing.close();
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
        closing: &Closing,
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
                let (engine, closing) = (self.clone(), closing.clone());
                // On the heap once: a task of the runtime is moved several times, and this is some kilobytes.
                working.spawn(Box::pin(engine.work_in(place, lease, closing)));
            }
            while working.try_join_next().is_some() {}
        }
    }

    /// Works on a task, and on what is due next for as long as it is at hand: only what has to be fetched goes by way of the dispatcher.
    async fn work_in(self, place: OwnedSemaphorePermit, lease: Lease, closing: Closing) {
        self.inner.metrics.in_flight(1);
        let mut next = Some(lease);
        while let Some(lease) = next {
            let give_back =
                HandBack { engine: self.clone(), task: lease.task.id, epoch: lease.epoch, armed: true };
            self.work(lease).await;
            give_back.done();
            next = self.at_hand(&closing).await;
            // So that one tenant's long row of steps does not keep a thread from all else.
            tokio::task::consume_budget().await;
        }
        self.inner.metrics.in_flight(-1);
        drop(place);
        // Whatever was left to this worker to look for.
        self.inner.due.ring();
    }

    async fn at_hand(&self, closing: &Closing) -> Option<Lease> {
        let (now, options) = (self.inner.clock.now(), &self.inner.options);
        if closing.is_closing() || self.inner.elsewhere.yields(now).is_some() {
            return None;
        }
        let lease = self.inner.store.lease_at_hand(&options.holder, now, options.lease)?;
        // What else the last commit asked for is for others.
        if let Ok(Some(next)) = self.inner.store.next_due().await
            && next <= now
        {
            self.inner.due.ring();
        }
        Some(lease)
    }

    /// Hands a task back, to be looked at again at `due`.
    pub(crate) async fn hand_back(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), store::Error> {
        self.inner.store.release(task, epoch, due, deliveries).await?;
        self.inner.due.scheduled([due]);
        Ok(())
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
    pub(crate) async fn work(&self, lease: Lease) {
        let (task, epoch, deliveries) = (lease.task.id, lease.epoch, lease.deliveries);
        let span = tracing::info_span!("task", execution = %task.execution, trace_id = %task.execution.trace_id(), visit = task.visit, slot = task.slot);
        let worked = self.try_work(lease).instrument(span.clone()).await;
        let _in = span.enter();
        let later = |delay| self.inner.clock.now().after(delay);
        // What counts as delivered: not what was never tried, and what was tried and could not be committed once, so that the
        // next attempt asks first. Only deliveries that were lost with their worker add up to poison.
        let (put_off, delivered) = match worked {
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
                return Box::pin(self.note_fenced(task, epoch)).await;
            }
            Err(error @ Error::NoWorker { .. }) => {
                self.inner.metrics.left_alone();
                // For what a message brings, somebody may be waiting.
                let longest = if Message::is_one(task) { SECOND / 2 } else { MINUTE };
                let (pause, first) = self.inner.elsewhere.meet(task, self.inner.clock.now(), longest);
                if first {
                    tracing::warn!(%error, "left alone");
                }
                (pause, deliveries.saturating_sub(1))
            }
            Err(error @ Error::NotFound(_)) => {
                tracing::warn!(%error, "left alone");
                (MINUTE, deliveries.saturating_sub(1))
            }
            Err(
                error @ (Error::Unreadable { .. }
                | Error::Destroyed { .. }
                | Error::Store(store::Error::Corrupt { .. })),
            ) => {
                self.inner.metrics.unreadable();
                // Of a state that this version has no more, an earlier one that runs beside it may be able to make something.
                let now = self.inner.clock.now();
                let (pause, first) = self.inner.elsewhere.meet(task, now, 10 * MINUTE);
                if first {
                    tracing::error!(%error, "an execution cannot be read; the others go on");
                }
                (pause, deliveries.saturating_sub(1))
            }
            Err(error) => {
                tracing::error!(%error, "a result could not be committed; the task will be delivered again");
                (SECOND, 1)
            }
        };
        drop(_in);
        if let Err(error) = self.hand_back(task, epoch, later(put_off), delivered).await {
            tracing::warn!(%task, %error, "a task could not be handed back; its lease will lapse");
        }
    }

    async fn try_work(&self, lease: Lease) -> Result<(), Error> {
        let id = lease.task.id.execution;
        let ticket = Ticket { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let settle = Some(Settle { task: lease.task.id, epoch: lease.epoch });
        if Message::is_one(lease.task.id) {
            return Box::pin(self.deliver_message(&lease)).await;
        }
        let record = self.record(id).await?;
        let span = tracing::Span::current();
        span.record("workflow", &record.workflow)
            .record("tenant", &record.tenant)
            .record("state", &record.state);
        let machine = self.machine(&record.workflow, record.schema)?;
        if lease.deliveries > 1 {
            self.inner.metrics.redelivered();
        }
        let directive = machine.directive(&record, ticket)?;
        if !matches!(directive, Directive::Run(_)) {
            // It waits at no key any more, and keeps no place.
            self.unwanted(&[lease.task.id]).await;
        }
        let event = match directive {
            Directive::Drop => {
                self.forget(lease.task.id, lease.epoch).await;
                return Ok(());
            }
            Directive::Hold => Event::Held { ticket, doubt: lease.deliveries > 1 },
            Directive::Ring(event) => event,
            // It is too late, and an earlier worker may have done it.
            Directive::GiveUp(error) if lease.deliveries > 1 && error.code == TOO_LATE => Event::Settled {
                ticket,
                result: Err(ActionError { class: Class::Unknown, ..error }),
                tried: None,
            },
            Directive::GiveUp(error) => Event::Settled { ticket, result: Err(error), tried: None },
            Directive::Run(_) if lease.deliveries > self.inner.options.poison_after => {
                let error = format!("delivered {} times without a result", lease.deliveries - 1);
                Event::Settled { ticket, result: Err(ActionError::permanent(POISONED, error)), tried: None }
            }
            Directive::Run(work) => return self.run_work(&lease, &record.tenant, *work).await,
        };
        self.deliver_settling(id, event, settle).await.map(|_| ())
    }

    /// Performs what a task asks for, in the way of its kind.
    async fn run_work(&self, lease: &Lease, tenant: &str, work: Work<P>) -> Result<(), Error> {
        let attempt = work.failed + lease.deliveries;
        tracing::Span::current().record("attempt", attempt);
        let call = Call {
            execution: lease.task.id.execution,
            state: work.state,
            entered: work.entered,
            slot: work.slot,
            edition: work.edition,
            undo: work.undo,
            ways: work.ways,
            attempt,
            epoch: lease.epoch,
            last_beat: work.beat,
            beats: None,
        };
        let doubt = work.doubt || lease.deliveries > 1;
        // What is not the common way has room of its own, so that the common one needs less.
        match work.deed.kind {
            DeedKind::Ledger(_) => Box::pin(self.settle_ledger(lease, &call)).await,
            DeedKind::Child(_) | DeedKind::CancelChild => Box::pin(self.settle_child(lease, &call)).await,
            DeedKind::Actuator(_) => {
                self.act_within_limits(lease, tenant, work.deed, call, doubt, work.limits).await
            }
        }
    }

    /// Decides a ledger action and commits its writes with the transition, on what it read; again on conflict.
    async fn settle_ledger(&self, lease: &Lease, call: &Call) -> Result<(), Error> {
        let id = lease.task.id.execution;
        let ticket = Ticket { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let settle = Some(Settle { task: lease.task.id, epoch: lease.epoch });
        let mut until = lease.until;
        for _ in 0..MOST_TRIES {
            self.stay_at_it(lease, &mut until).await?;
            let record = self.record(id).await?;
            let machine = self.machine(&record.workflow, record.schema)?;
            // A cancel or a pause may have come since the task was leased: it is handed back, and looked at anew. Removing
            // it would leave its slot open for good.
            let Directive::Run(work) = machine.directive(&record, ticket)? else {
                return Err(Error::Contended(id));
            };
            let DeedKind::Ledger(action) = &work.deed.kind else { return Err(Error::Contended(id)) };
            let watch = Stopwatch::start();
            let now = self.inner.clock.now();
            let Decided { result, reads, puts, tasks } = match self.bend(&work.deed, call) {
                Bend::Before(error) | Bend::After(error) => {
                    Decided { result: Err(error), reads: vec![], puts: vec![], tasks: vec![] }
                }
                Bend::Not | Bend::Twice => {
                    decide_knowing(&self.inner.parsed, &*self.inner.store, now, |view| {
                        action.decide(view, call)
                    })
                    .await?
                }
            };
            let also = Also { reads, documents: puts, tasks, ..Also::default() };
            self.count(id, (work.deed.name, work.deed.cluster()), &result, watch.elapsed());
            let tried = Some(Tried::of(work.deed.name, call, now));
            let settled = Event::Settled { ticket, result, tried };
            let next = machine.advance(&record, settled, self.inner.clock.now())?;
            match self.commit(Some(record.revision), next, settle, also).await {
                Err(Error::Store(store::Error::Conflict { .. })) => self.inner.metrics.conflict(),
                other => return other.map(|_| ()),
            }
        }
        Err(Error::Contended(id))
    }

    /// Prolongs the lease of what is decided again and again: others who took it over would only join the crowd, until it had
    /// been delivered too often.
    pub(crate) async fn stay_at_it(&self, lease: &Lease, until: &mut Timestamp) -> Result<(), store::Error> {
        let (now, length) = (self.inner.clock.now(), self.inner.options.lease);
        if until.since(now) < length / 2 {
            *until = now.after(length);
            self.inner.store.renew(lease.task.id, lease.epoch, *until).await?;
        }
        Ok(())
    }

    /// Removes a task that is of no use any more.
    async fn forget(&self, task: TaskId, epoch: Epoch) {
        let commit = Commit { settle: Some(Settle { task, epoch }), ..Commit::default() };
        match self.inner.store.commit(commit).await {
            Ok(_) => {}
            Err(store::Error::Fenced { .. }) => {
                self.inner.metrics.fenced();
                self.note_fenced(task, epoch).await;
            }
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

/// Told to the workers of one run once it is to end.
#[derive(Clone, Default)]
struct Closing(Arc<AtomicBool>);

impl Closing {
    fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_closing(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn fenced(lease: &Lease) -> Error {
    store::Error::Fenced { task: lease.task.id, epoch: lease.epoch }.into()
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
            runtime.spawn(async move {
                engine.hand_back(task, epoch, engine.inner.clock.now().after(SECOND), 1).await
            });
        }
    }
}

impl<P> fmt::Debug for Engine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("holder", &self.inner.options.holder).finish_non_exhaustive()
    }
}
