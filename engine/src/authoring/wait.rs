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
        Step::Wait(Wait { signal: None, earlier: false, within: Some(self.0), then: state, expired: state })
    }
}

/// A wait for a signal.
#[must_use = "say .within(..).then(..).expired(..)"]
pub struct SignalBuilder {
    signal: &'static str,
    earlier: bool,
    within: Option<Duration>,
}

/// [`SignalBuilder`], with the way for the signal.
#[must_use = "say .expired(..)"]
pub struct SignalBuilderThen<S>(SignalBuilder, S);

/// Waits for `signal`. A signal that came before the state was entered counts, unless the wait says
/// `.forget_earlier()`. Two waits of a workflow for the same signal do not share one: the first wait takes it.
pub fn await_signal(signal: &'static str) -> SignalBuilder {
    SignalBuilder { signal, earlier: true, within: None }
}

impl SignalBuilder {
    /// Counts only a signal that comes while the execution is in this state. Entering the state forgets earlier ones.
    ///
    /// For what a person says of this very wait, such as *the window may close*: a second confirmation of an earlier wait must
    /// not end this one. Leave it out where the sender can be ahead of the wait, such as another execution of the engine.
    pub fn forget_earlier(mut self) -> Self {
        self.earlier = false;
        self
    }

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
        let Self(SignalBuilder { signal, earlier, within }, then) = self;
        Step::Wait(Wait { signal: Some(signal), earlier, within, then, expired: state })
    }
}
