//! Builds a step that waits for time to pass or for a signal.

use crate::{StateSet, Step, Wait, Workflow};
use std::time::Duration;

/// A wait for time to pass.
#[must_use = "say .then(..)"]
pub struct WaitBuilder(Duration);

/// Waits for `span`.
pub fn wait(span: Duration) -> WaitBuilder {
    WaitBuilder(span)
}

impl WaitBuilder {
    /// What follows.
    pub fn then<W: Workflow>(self, state: W::State) -> Step<W> {
        Step::Wait(Wait { signal: None, within: Some(self.0), then: state, expired: state })
    }
}

/// A wait for a signal.
#[must_use = "say .within(..).then(..).expired(..)"]
pub struct SignalBuilder {
    signal: &'static str,
    within: Option<Duration>,
}

/// [`SignalBuilder`], with the way for the signal.
#[must_use = "say .expired(..)"]
pub struct SignalBuilderThen<S>(SignalBuilder, S);

/// Waits for `signal`; one that came before counts.
pub fn await_signal(signal: &'static str) -> SignalBuilder {
    SignalBuilder { signal, within: None }
}

impl SignalBuilder {
    /// How long to wait. A workflow that does not say is refused at registration.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Where the signal leads.
    pub fn then<S: StateSet>(self, state: S) -> SignalBuilderThen<S> {
        SignalBuilderThen(self, state)
    }
}

impl<S: StateSet> SignalBuilderThen<S> {
    /// Where the deadline leads.
    pub fn expired<W: Workflow<State = S>>(self, state: S) -> Step<W> {
        let Self(SignalBuilder { signal, within }, then) = self;
        Step::Wait(Wait { signal: Some(signal), within, then, expired: state })
    }
}
