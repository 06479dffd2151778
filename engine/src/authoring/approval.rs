//! Builds an approval step.
//!
//! Invariant: every ruling has an exit, and the deadline never leads to consent by default.

use crate::{Approval, Procedure, Seat, StateSet, Step, Workflow};
use std::time::Duration;

/// A question to people that does not say yet where each answer leads.
#[must_use = "say .within(..).granted(..).refused(..).expired(..)"]
pub struct ApprovalBuilder {
    seats: Vec<Seat>,
    within: Option<Duration>,
    procedure: Procedure,
}

/// [`ApprovalBuilder`], with the way for yes.
#[must_use = "say .refused(..).expired(..)"]
pub struct ApprovalBuilderGranted<S>(ApprovalBuilder, S);

/// [`ApprovalBuilder`], with the ways for yes and no.
#[must_use = "say .expired(..)"]
pub struct ApprovalBuilderRefused<S>(ApprovalBuilder, S, S);

/// Asks for the consent of different people, one for each place of `seats`.
pub fn approval(seats: impl IntoIterator<Item = Seat>) -> ApprovalBuilder {
    ApprovalBuilder { seats: seats.into_iter().collect(), within: None, procedure: Procedure::default() }
}

impl ApprovalBuilder {
    /// How long people have. A workflow that does not say is refused at registration.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// What else policy says about it: escalation, extension, reminders, break-glass.
    pub fn with_procedure(mut self, procedure: Procedure) -> Self {
        self.procedure = procedure;
        self
    }

    /// Where consent leads.
    pub fn granted<S: StateSet>(self, state: S) -> ApprovalBuilderGranted<S> {
        ApprovalBuilderGranted(self, state)
    }
}

impl<S: StateSet> ApprovalBuilderGranted<S> {
    /// Where a refusal leads.
    pub fn refused(self, state: S) -> ApprovalBuilderRefused<S> {
        ApprovalBuilderRefused(self.0, self.1, state)
    }
}

impl<S: StateSet> ApprovalBuilderRefused<S> {
    /// Where the deadline leads: never to consent.
    pub fn expired<W: Workflow<State = S>>(self, state: S) -> Step<W> {
        let Self(ApprovalBuilder { seats, within, procedure }, granted, refused) = self;
        Step::Approval(Approval { seats, within, procedure, granted, refused, expired: state })
    }
}
