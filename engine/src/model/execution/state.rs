//! One execution: its state, its trail and its authorisation.

use super::trail::is_zero;
use crate::{
    ActionError, Authorisation, Ballot, Failure, Parent, Phase, PlanDigest, Provenance, Reason, StateSet,
    TrailEntry, Workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use store::Timestamp;

/// One execution. Persisted as JSON: field names are part of the engine's schema, `data` of the workflow's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Execution<W: Workflow> {
    /// The current state.
    #[serde(with = "by_name")]
    pub state: W::State,
    /// The current phase.
    pub phase: Phase,
    /// Counts the waits it has begun. Tasks and timers of an earlier visit are stale.
    pub visit: u32,
    /// Counts the states it has entered. Part of every idempotency key, so a retry keeps it.
    #[serde(rename = "entered")]
    pub states_entered: u32,
    /// When it entered the state.
    pub since: Timestamp,
    /// The work of the current visit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Slot>,
    /// The state's deadline has passed while work was in flight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// The undos of a compensation, oldest first. Grows before each action starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trail: Vec<TrailEntry>,
    /// The state in which it passed the pivot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pivot: Option<String>,
    /// The authorisation to pass the pivot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorisation: Option<Authorisation>,
    /// How often the plan has changed after it was authorised.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_again: u32,
    /// The open approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ballot: Option<Ballot>,
    /// The promised end, for which the alarm is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Timestamp>,
    /// True if the promised end has passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "broken")]
    pub promise_missed: bool,
    /// The last permanent failure that the workflow handled by an edge. It explains why the execution is in its
    /// state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// Signals that arrived before the execution waited for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub signals: BTreeSet<String>,
    /// The person who paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The person who cancelled it, while running attempts end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<String>,
    /// The requester, who cannot vote.
    pub requested_by: String,
    /// The origin of the requester's credential, if the server recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Provenance>,
    /// The people who changed its plan, who cannot vote either.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shaped_by: BTreeSet<String>,
    /// The parent, if another execution started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The schema of its plan's digest, if it is older than the workflow's: the schema that a later version first
    /// read it with. So an upgrade that does not change the plan keeps the digest and the votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_schema: Option<u32>,
    /// The workflow's data.
    pub data: W,
}

/// The work of one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// True once the slot has been scheduled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// When it was first scheduled.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub first_at: Timestamp,
    /// Attempts that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// Counts the repairs that changed its action. Part of the idempotency key.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "edition")]
    pub slot_revision: u32,
    /// True if the outcome of the last attempt is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubt: bool,
    /// The last note of an attempt about its progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat: Option<String>,
    /// The last error, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ActionError>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Result<Value, ActionError>>,
}

/// An unscheduled slot is stored without a time: thousands of these need only a few kilobytes.
fn is_unset(at: &Timestamp) -> bool {
    *at == Timestamp(0)
}

impl<W: Workflow> Execution<W> {
    /// Returns true after a termination while some of its effects still exist.
    #[must_use]
    pub fn has_leftovers(&self) -> bool {
        matches!(self.phase, Phase::Finished { outcome: crate::Outcome::Terminated, .. })
            && self.trail.iter().any(crate::TrailEntry::needs_undo)
    }

    /// Creates an execution of `data` that has not started.
    #[must_use]
    pub fn new(data: W, requested_by: impl Into<String>, at: Timestamp) -> Self {
        Self {
            state: W::INITIAL,
            phase: Phase::Forward,
            visit: 0,
            states_entered: 0,
            since: at,
            slots: Vec::new(),
            overdue: false,
            trail: Vec::new(),
            pivot: None,
            authorisation: None,
            asked_again: 0,
            ballot: None,
            promised: None,
            promise_missed: false,
            last_failure: None,
            signals: BTreeSet::new(),
            paused: None,
            cancelled: None,
            requested_by: requested_by.into(),
            requester: None,
            shaped_by: BTreeSet::new(),
            parent: None,
            plan_schema: None,
            data,
        }
    }

    /// The state's name.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        self.state.into()
    }

    /// Returns the digest of the plan for the current data.
    #[must_use]
    pub fn digest(&self) -> PlanDigest {
        self.digest_of(&self.data)
    }

    /// Returns the digest of the plan for `data`.
    pub(crate) fn digest_of(&self, data: &W) -> PlanDigest {
        data.plan().digest(W::NAME, self.plan_schema.unwrap_or(W::SCHEMA))
    }

    /// Returns the phase as lists show it. `paused` replaces the phase of a paused execution.
    #[must_use]
    pub fn phase_name(&self) -> &'static str {
        match (&self.phase, &self.paused) {
            (Phase::Forward | Phase::Compensating(_), Some(_)) => "paused",
            (phase, _) => phase.name(),
        }
    }

    /// Returns why an operator must act (why it is parked, or that it is overdue), or how it finished.
    #[must_use]
    pub fn reason_name(&self) -> Option<&'static str> {
        match &self.phase {
            Phase::Parked { reason, .. } => Some(reason.into()),
            Phase::Finished { outcome, .. } => Some(outcome.into()),
            Phase::Forward | Phase::Compensating(_) => self.promise_missed.then(|| Reason::Overdue.into()),
        }
    }
}

/// Returns the state with this name.
pub(crate) fn state_named<S: StateSet>(name: &str) -> Option<S> {
    S::VARIANTS.iter().copied().find(|state| name == Into::<&str>::into(*state))
}

/// States are persisted by name, so their order may change but their names may not.
mod by_name {
    use super::{StateSet, state_named};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: StateSet, Z: Serializer>(state: &S, out: Z) -> Result<Z::Ok, Z::Error> {
        out.serialize_str((*state).into())
    }

    pub(super) fn deserialize<'de, S: StateSet, D: Deserializer<'de>>(from: D) -> Result<S, D::Error> {
        let name = String::deserialize(from)?;
        state_named(&name).ok_or_else(|| D::Error::custom(format_args!("no state is named {name}")))
    }
}
