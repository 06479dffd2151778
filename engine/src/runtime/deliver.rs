//! What people tell an engine. One path, [`Engine::deliver`], whoever calls.

use crate::{Engine, Error, Event, Order, Person, PlanDigest, Refusal, Verdict, Vote};
use store::{ExecutionId, Revision};

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
    pub async fn withdraw_vote(&self, id: ExecutionId, order: Order) -> Result<Revision, Error> {
        self.deliver(id, Event::VoteWithdrawn(order)).await
    }

    /// Asks to turn back.
    ///
    /// # Errors
    /// [`Refusal::ForwardOnly`] past the pivot; see [`Engine::deliver`].
    pub async fn cancel(&self, id: ExecutionId, order: Order) -> Result<Revision, Error> {
        self.deliver(id, Event::CancelRequested(order)).await
    }

    /// Tells an execution that something it waits for, or will, has happened.
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
