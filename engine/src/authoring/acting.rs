//! The limits and the exits of a step that acts, once its compensation is settled.

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

/// Actions whose compensation is settled; [`ActBuilder::then`] makes them a step.
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
    /// Where the result goes, called once a slot, in order, when all have succeeded.
    pub fn record(mut self, keep: fn(&mut W, O)) -> Self {
        for branch in &mut self.act.branches {
            branch.record = Some(recorder(keep));
        }
        self
    }
}

impl<W: Workflow, O> ActBuilder<W, O> {
    /// The whole state ends by then. Default 1 h.
    pub fn within(mut self, limit: Duration) -> Self {
        self.act.within = limit;
        self
    }

    /// One attempt ends by then; later, its outcome is unknown. Default 1 min.
    pub fn attempt_within(mut self, limit: Duration) -> Self {
        self.act.attempt_within = limit;
        self
    }

    /// An attempt that does not call [`Call::heartbeat`](crate::Call::heartbeat) for this long counts as without an answer.
    pub fn heartbeat(mut self, limit: Duration) -> Self {
        self.act.heartbeat = Some(limit);
        self
    }

    /// When and how often to try again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.act.retry = policy;
        self
    }

    /// At most `n` slots are worked on at once. Default 16.
    pub fn max_concurrent(mut self, n: usize) -> Self {
        self.act.at_once = n.max(1);
        self
    }

    /// Operators may also limit its attempts under these keys, each `kind/name`. Undos are limited by what their own action
    /// says.
    pub fn limited_by<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.act.keys.extend(keys.into_iter().map(Into::into));
        self
    }

    /// What becomes of its places at limited keys while its action is pending. Default: they are given back.
    pub fn while_pending(mut self, places: WhilePending) -> Self {
        self.act.while_pending = places;
        self
    }

    /// Where a final failure with `code` leads, instead of turning back. What was begun stays on the trail.
    pub fn on_failure(mut self, code: &'static str, state: W::State) -> Self {
        self.act.on_failure.push((code, state));
        self
    }

    /// Where any other final failure leads, instead of turning back.
    pub fn or_else(mut self, state: W::State) -> Self {
        self.act.or_else = Some(state);
        self
    }

    /// An operator may leave the step out, with a reason, when it cannot be done. Whoever says so answers for what the data
    /// then lacks in the states that follow.
    pub fn optional(mut self) -> Self {
        self.act.optional = true;
        self
    }

    /// The same, and leaving it out leads to `state`, which deals with what is then not known.
    pub fn optional_to(mut self, state: W::State) -> Self {
        self.act.skip_to = Some(state);
        self.optional()
    }

    /// It destroys data: only an approval can authorise it, never a waiver. Makes the step forward-only.
    pub fn destroys(mut self) -> Self {
        self.act.commitment = Commitment::ForwardOnly { destroys: true };
        self
    }

    /// Where success leads.
    pub fn then(mut self, next: W::State) -> Step<W> {
        self.act.next = next;
        Step::Act(self.act)
    }
}
