//! Delivers an event to an execution: load, [`transition`](crate::transition()), commit, and again on conflict.

use super::{
    commit::{ExtraWrites, MAX_TRIES},
    decisions::{batch::Batch, turn::Turn},
    relay::moved_on,
};
use crate::{Attribution, Engine, Error, Event, Person, PlanDigest, Refusal, Verdict, Vote};
use store::{ExecutionId, Record, Revision, Settle};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Casts a vote on the plan with this `digest`.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] with the rule that forbids the vote.
    pub async fn vote(
        &self,
        id: ExecutionId,
        by: &Person,
        verdict: Verdict,
        digest: &PlanDigest,
        reason: &str,
    ) -> Result<Revision, Error> {
        let vote = Vote::new(by.clone(), verdict, reason, self.inner.clock.now());
        self.deliver(id, Event::Voted { vote, digest: digest.clone() }).await
    }

    /// Withdraws the vote of `order.by`, or the one cast for them, while the approval is undecided.
    ///
    /// # Errors
    /// Returns [`Refusal::NoVote`] without such a vote; see [`Engine::deliver`].
    pub async fn withdraw_vote(&self, id: ExecutionId, order: Attribution) -> Result<Revision, Error> {
        self.deliver(id, Event::VoteWithdrawn(order)).await
    }

    /// Requests a cancel, which undoes the execution.
    ///
    /// # Errors
    /// Returns [`Refusal::ForwardOnly`] past the pivot; see [`Engine::deliver`].
    pub async fn cancel(&self, id: ExecutionId, order: Attribution) -> Result<Revision, Error> {
        self.deliver(id, Event::CancelRequested(order)).await
    }

    /// Sends a signal of a person or an external system. It is accepted only by the wait that the execution is in.
    ///
    /// The check and the delivery use the same revision: `bound`, or the newest one.
    ///
    /// # Errors
    /// Returns [`Refusal::SignalNotAwaited`], which names the awaited signal; [`Refusal::Finished`]; with a `bound`,
    /// [`store::Error::Conflict`] if the execution has changed. See [`Engine::deliver`].
    pub async fn signal_awaited(
        &self,
        id: ExecutionId,
        name: &str,
        bound: Option<Revision>,
    ) -> Result<Revision, Error> {
        let event = || Event::Signalled { name: name.into() };
        for _ in 0..MAX_TRIES {
            let record = self.record(id).await?;
            if let Some(bound) = bound.filter(|bound| *bound != record.revision) {
                return Err(store::Error::Conflict { what: moved_on(&record, bound) }.into());
            }
            let machine = self.machine(&record.workflow, record.schema);
            match machine.and_then(|machine| machine.awaited_signal(&record)) {
                Ok(awaited) => not_awaited(&record, name, awaited)?,
                // An engine that has the workflow checks it itself.
                Err(Error::NoWorker { .. }) => return self.deliver_at(id, event(), record.revision).await,
                Err(error) => return Err(error),
            }
            match self.deliver_at(id, event(), record.revision).await {
                Err(Error::Store(store::Error::Conflict { .. })) if bound.is_none() => {}
                other => return other,
            }
        }
        Err(Error::Contended(id))
    }

    /// Sends a signal from within the engine, which may arrive before the execution waits for it. Signals of people
    /// use [`Engine::signal_awaited`].
    ///
    /// # Errors
    /// See [`Engine::deliver`]. A signal to a finished execution is ignored without an error.
    pub async fn signal(&self, id: ExecutionId, name: &str) -> Result<(), Error> {
        match self.deliver(id, Event::Signalled { name: name.into() }).await {
            Ok(_) | Err(Error::Refused(Refusal::Finished)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Delivers an event to an execution.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] with the reason, [`Error::NotFound`], [`Error::NoWorker`], or the store's error.
    pub async fn deliver(&self, id: ExecutionId, event: Event) -> Result<Revision, Error> {
        self.check_second(&event)?;
        self.check_deadline(id, &event).await?;
        let event = self.under_separation(event);
        let result = self.deliver_settling(id, event.clone(), None).await;
        self.or_relayed(id, (event, None), result).await
    }

    /// Delivers an event to an execution if it is still at `revision`.
    ///
    /// # Errors
    /// Same as [`Engine::deliver`]; [`store::Error::Conflict`] if the revision has changed.
    pub async fn deliver_at(
        &self,
        id: ExecutionId,
        event: Event,
        revision: Revision,
    ) -> Result<Revision, Error> {
        self.check_second(&event)?;
        self.check_deadline(id, &event).await?;
        let event = self.under_separation(event);
        let result = self.deliver_bound(id, event.clone(), revision).await;
        self.or_relayed(id, (event, Some(revision)), result).await
    }

    /// Sets the separation of a vote from this engine's options, whatever the event contains.
    fn under_separation(&self, event: Event) -> Event {
        let separation = self.separation();
        match event {
            Event::Voted { vote, digest } => Event::Voted { vote: Vote { separation, ..vote }, digest },
            other => other,
        }
    }

    async fn deliver_bound(&self, id: ExecutionId, event: Event, bound: Revision) -> Result<Revision, Error> {
        let record = self.record(id).await?;
        if record.revision != bound {
            return Err(store::Error::Conflict { what: moved_on(&record, bound) }.into());
        }
        let next =
            self.machine(&record.workflow, record.schema)?.advance(&record, event, self.inner.clock.now())?;
        self.commit(Some(bound), next, None, ExtraWrites::default()).await
    }

    pub(crate) async fn deliver_settling(
        &self,
        id: ExecutionId,
        event: Event,
        settle: Option<Settle>,
    ) -> Result<Revision, Error> {
        let mut turn = ExecutionTurn::default();
        for _ in 0..MAX_TRIES {
            let record = self.record(id).await?;
            if self.wait_for_turn(&record, &mut turn).await {
                continue;
            }
            let machine = self.machine(&record.workflow, record.schema)?;
            let next = machine.advance(&record, event.clone(), self.inner.clock.now())?;
            match self.commit(Some(record.revision), next, settle, ExtraWrites::default()).await {
                Err(Error::Store(store::Error::Conflict { .. })) => self.inner.metrics.conflict(),
                other => return other,
            }
        }
        Err(Error::Contended(id))
    }
}

/// A turn at a large execution. Its events are decided one after the other, because a repeated decision is expensive.
#[derive(Default)]
pub(crate) struct ExecutionTurn {
    waited: bool,
    _turn: Option<Turn<Batch>>,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Waits for a turn if the execution of `record` is large. Returns true if the record may have changed meanwhile.
    pub(crate) async fn wait_for_turn(&self, record: &Record, turn: &mut ExecutionTurn) -> bool {
        if turn.waited || record.body.len() <= store::paged::INLINE_LIMIT {
            return false;
        }
        let mut place = self.inner.queues.join(format!("execution {}", record.id));
        let waits = !place.line.is_free();
        let taken = self.turn_alone(&mut place, self.inner.options.lease / 4).await;
        *turn = ExecutionTurn { waited: true, _turn: taken };
        waits
    }

    /// Returns the stored record.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] or the store's error.
    pub async fn record(&self, id: ExecutionId) -> Result<Record, Error> {
        self.inner.store.load(id).await?.ok_or(Error::NotFound(id))
    }
}

/// Refuses a signal that the execution does not wait for now.
fn not_awaited(record: &Record, name: &str, awaited: Option<&'static str>) -> Result<(), Refusal> {
    if !record.open {
        return Err(Refusal::Finished);
    }
    if awaited == Some(name) {
        return Ok(());
    }
    let (signal, state) = (name.to_owned(), record.state.clone());
    Err(Refusal::SignalNotAwaited { signal, state, phase: record.phase.clone(), awaited })
}
