//! Limits and edges of a step that acts, once its undo is chosen.

use crate::{
    Act, ActionError, Branch, Commitment, HOUR, MINUTE, RetryPolicy, Step, WhilePending, Workflow,
    model::definition::step::Recorder,
};
use serde::de::DeserializeOwned;
use std::{marker::PhantomData, time::Duration};

pub(crate) fn act_with_defaults<W: Workflow>(branches: Vec<Branch<W>>, commitment: Commitment) -> Act<W> {
    Act {
        branches,
        commitment,
        retry: RetryPolicy::default(),
        attempt_within: MINUTE,
        heartbeat: None,
        within: HOUR,
        at_once: 16,
        keys: Vec::new(),
        while_pending: WhilePending::default(),
        next: W::INITIAL,
        on_failure: Vec::new(),
        or_else: None,
        optional: false,
        skip_to: None,
        child_type: None,
    }
}

pub(super) fn recorder<W: Workflow, O: DeserializeOwned + 'static>(keep: fn(&mut W, O)) -> Recorder<W> {
    Box::new(move |data, output| {
        let output =
            serde_json::from_value(output).map_err(|e| ActionError::permanent("engine.decode", e))?;
        keep(data, output);
        Ok(())
    })
}

/// Actions whose undo is chosen; [`ActBuilder::then`] makes them a step.
#[must_use = "say .then(state)"]
pub struct ActBuilder<W: Workflow, O> {
    act: Act<W>,
    output: PhantomData<fn() -> O>,
}

impl<W: Workflow, O> ActBuilder<W, O> {
    pub(crate) fn from_act(act: Act<W>) -> Self {
        Self { act, output: PhantomData }
    }
}

impl<W: Workflow, O: DeserializeOwned + 'static> ActBuilder<W, O> {
    /// Sets the recorder of the results. It is called once for each slot, in order, when all have succeeded.
    pub fn record(mut self, keep: fn(&mut W, O)) -> Self {
        for branch in &mut self.act.branches {
            branch.record = Some(recorder(keep));
        }
        self
    }
}

impl<W: Workflow, O> ActBuilder<W, O> {
    /// Sets the deadline of the whole state. Default 1 h.
    pub fn within(mut self, limit: Duration) -> Self {
        self.act.within = limit;
        self
    }

    /// Sets the limit of one attempt. After it, the outcome of the attempt is unknown. Default 1 min.
    pub fn attempt_within(mut self, limit: Duration) -> Self {
        self.act.attempt_within = limit;
        self
    }

    /// Sets the heartbeat limit. An attempt that does not call [`Call::heartbeat`](crate::Call::heartbeat) for this
    /// long counts as unanswered.
    pub fn heartbeat(mut self, limit: Duration) -> Self {
        self.act.heartbeat = Some(limit);
        self
    }

    /// Sets the retry policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.act.retry = policy;
        self
    }

    /// Sets how many slots run concurrently. Default 16.
    pub fn max_concurrent(mut self, n: usize) -> Self {
        self.act.at_once = n.max(1);
        self
    }

    /// Adds limit keys, each `kind/name`, for the attempts of this step. Undos have only the keys of their own
    /// action.
    pub fn limited_by<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.act.keys.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Sets what happens to its permits while its action is pending. By default they are released.
    pub fn while_pending(mut self, places: WhilePending) -> Self {
        self.act.while_pending = places;
        self
    }

    /// Sets the state after a permanent failure with `code`, instead of compensation. The trail keeps what was begun.
    pub fn on_failure(mut self, code: &'static str, state: W::State) -> Self {
        self.act.on_failure.push((code, state));
        self
    }

    /// Sets the state after any other permanent failure, instead of compensation.
    pub fn or_else(mut self, state: W::State) -> Self {
        self.act.or_else = Some(state);
        self
    }

    /// Allows an operator to skip the step, with a reason, when it cannot be done. The later states must work without
    /// its results.
    pub fn optional(mut self) -> Self {
        self.act.optional = true;
        self
    }

    /// Allows an operator to skip the step, and sets the state after a skip.
    pub fn optional_to(mut self, state: W::State) -> Self {
        self.act.skip_to = Some(state);
        self.optional()
    }

    /// Declares that it destroys data: only an approval can authorise it, never a waiver. Makes the step
    /// forward-only.
    pub fn destroys(mut self) -> Self {
        self.act.commitment = Commitment::ForwardOnly { destroys: true };
        self
    }

    /// Sets the state after success.
    pub fn then(mut self, next: W::State) -> Step<W> {
        self.act.next = next;
        Step::Act(self.act)
    }
}
