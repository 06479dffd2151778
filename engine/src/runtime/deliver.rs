//! Delivers an event to an execution: load, [`transition`](crate::transition()), commit, again on conflict.

use super::{
    commit::{ExtraWrites, MAX_TRIES},
    decisions::{batch::Batch, turn::Turn},
    relay::moved_on,
};
use crate::{Attribution, Engine, Error, Event, Person, PlanDigest, Refusal, Verdict, Vote};
use store::{ExecutionId, Record, Revision, Settle};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Casts a vote on the plan named by `digest`.
    ///
    /// # Errors
    /// [`Error::Refused`] by the rule that forbids it.
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

    /// Takes back the vote of `order.by`, or that somebody cast for them, while nothing is decided.
    ///
    /// # Errors
    /// [`Refusal::NoVote`]; see [`Engine::deliver`].
    pub async fn withdraw_vote(&self, id: ExecutionId, order: Attribution) -> Result<Revision, Error> {
        self.deliver(id, Event::VoteWithdrawn(order)).await
    }

    /// Asks to turn back.
    ///
    /// # Errors
    /// [`Refusal::ForwardOnly`] past the pivot; see [`Engine::deliver`].
    pub async fn cancel(&self, id: ExecutionId, order: Attribution) -> Result<Revision, Error> {
        self.deliver(id, Event::CancelRequested(order)).await
    }

    /// Sends a signal of a person or a system outside: it counts for the wait that the execution is in, and for no other.
    ///
    /// The check and the delivery are of the same revision: `bound`, or the newest one.
    ///
    /// # Errors
    /// [`Refusal::SignalNotAwaited`], which names the awaited signal; [`Refusal::Finished`]; with a `bound`, [`store::Error::Conflict`]
    /// when the execution has moved on. See [`Engine::deliver`].
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
                // An engine that knows the workflow looks for itself.
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

    /// Tells an execution that something it waits for, or will, has happened. For the engine's own senders, which can be ahead
    /// of the wait: what people send goes through [`Engine::signal_awaited`].
    ///
    /// # Errors
    /// See [`Engine::deliver`]. An execution that has finished needs no telling: that is no error.
    pub async fn signal(&self, id: ExecutionId, name: &str) -> Result<(), Error> {
        match self.deliver(id, Event::Signalled { name: name.into() }).await {
            Ok(_) | Err(Error::Refused(Refusal::Finished)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Lets an execution take an event.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason, [`Error::NotFound`], [`Error::NoWorker`], or the store's.
    pub async fn deliver(&self, id: ExecutionId, event: Event) -> Result<Revision, Error> {
        self.check_second(&event)?;
        self.check_deadline(id, &event).await?;
        let event = self.under_separation(event);
        let result = self.deliver_settling(id, event.clone(), None).await;
        self.or_relayed(id, (event, None), result).await
    }

    /// Lets an execution take an event if it is still at `revision`.
    ///
    /// # Errors
    /// As [`Engine::deliver`]; [`store::Error::Conflict`] when it has moved on.
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

    /// The event, as this engine takes it: whether a vote must be separate is its options' word, and nobody else's.
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

/// A turn at a large execution. Its events are decided one after the other: to decide one in vain takes long.
#[derive(Default)]
pub(crate) struct ExecutionTurn {
    waited: bool,
    _turn: Option<Turn<Batch>>,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Waits for a turn at the execution of `record` if that is large; returns true if the record may have changed meanwhile.
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

    /// The stored record.
    ///
    /// # Errors
    /// [`Error::NotFound`], or the store's.
    pub async fn record(&self, id: ExecutionId) -> Result<Record, Error> {
        self.inner.store.load(id).await?.ok_or(Error::NotFound(id))
    }
}

/// Refuses a signal that an execution does not wait for as it stands.
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
