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
    /// Sets the state after the wait.
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

/// A [`SignalBuilder`] with the edge for the signal.
#[must_use = "say .expired(..)"]
pub struct SignalBuilderThen<S>(SignalBuilder, S);

/// Waits for `signal`. A signal that arrived before the state was entered counts, unless the wait uses
/// `.forget_earlier()`. Each signal ends only one wait of a workflow: the first one.
pub fn await_signal(signal: &'static str) -> SignalBuilder {
    SignalBuilder { signal, earlier: true, within: None }
}

impl SignalBuilder {
    /// Accepts only a signal that arrives while the execution is in this state. Entering the state removes earlier
    /// ones.
    ///
    /// Use it where a person confirms exactly this wait, such as *the window may close*: a second confirmation of an
    /// earlier wait must not end this one. Do not use it where the sender can be ahead of the wait, such as another
    /// execution.
    pub fn forget_earlier(mut self) -> Self {
        self.earlier = false;
        self
    }

    /// Sets the deadline. Without one, registration fails.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Sets the state after the signal.
    pub fn then<S: StateSet>(self, state: S) -> SignalBuilderThen<S> {
        SignalBuilderThen(self, state)
    }
}

impl<S: StateSet> SignalBuilderThen<S> {
    /// Sets the state after the deadline.
    pub fn expired<W: Workflow<State = S>>(self, state: S) -> Step<W> {
        let Self(SignalBuilder { signal, earlier, within }, then) = self;
        Step::Wait(Wait { signal: Some(signal), earlier, within, then, expired: state })
    }
}
