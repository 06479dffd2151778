//! Builds an approval step.
//!
//! Invariant: every ruling has an edge, and the deadline never leads to consent by default.

use crate::{Approval, Procedure, Seat, StateSet, Step, Workflow};
use std::time::Duration;

/// An approval without edges.
#[must_use = "say .within(..).granted(..).refused(..).expired(..)"]
pub struct ApprovalBuilder {
    seats: Vec<Seat>,
    within: Option<Duration>,
    procedure: Procedure,
}

/// An [`ApprovalBuilder`] with the edge for `granted`.
#[must_use = "say .refused(..).expired(..)"]
pub struct ApprovalBuilderGranted<S>(ApprovalBuilder, S);

/// An [`ApprovalBuilder`] with the edges for `granted` and `refused`.
#[must_use = "say .expired(..)"]
pub struct ApprovalBuilderRefused<S>(ApprovalBuilder, S, S);

/// Requires the consent of different people, one for each place of `seats`.
pub fn approval(seats: impl IntoIterator<Item = Seat>) -> ApprovalBuilder {
    ApprovalBuilder { seats: seats.into_iter().collect(), within: None, procedure: Procedure::default() }
}

impl ApprovalBuilder {
    /// Sets the deadline. Without one, registration fails.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Sets the procedure: escalation, extension, reminders, break-glass.
    pub fn with_procedure(mut self, procedure: Procedure) -> Self {
        self.procedure = procedure;
        self
    }

    /// Sets the state after consent.
    pub fn granted<S: StateSet>(self, state: S) -> ApprovalBuilderGranted<S> {
        ApprovalBuilderGranted(self, state)
    }
}

impl<S: StateSet> ApprovalBuilderGranted<S> {
    /// Sets the state after a refusal.
    pub fn refused(self, state: S) -> ApprovalBuilderRefused<S> {
        ApprovalBuilderRefused(self.0, self.1, state)
    }
}

impl<S: StateSet> ApprovalBuilderRefused<S> {
    /// Sets the state after the deadline. A missed deadline is never a consent.
    pub fn expired<W: Workflow<State = S>>(self, state: S) -> Step<W> {
        let Self(ApprovalBuilder { seats, within, procedure }, granted, refused) = self;
        Step::Approval(Approval { seats, within, procedure, granted, refused, expired: state })
    }
}
