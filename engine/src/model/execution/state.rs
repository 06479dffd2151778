//! One run of a workflow: where it stands, what it has left behind, and what it is allowed to do.

use super::trail::is_zero;
use crate::{
    ActionError, Authorisation, Ballot, Failure, Parent, Phase, PlanDigest, Provenance, Reason, StateSet,
    TrailEntry, Workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use store::Timestamp;

/// One run of a workflow. Persisted as JSON; field names are the schema of the engine, `data` that of the workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Execution<W: Workflow> {
    /// Where it stands.
    #[serde(with = "by_name")]
    pub state: W::State,
    /// What it is doing there.
    pub phase: Phase,
    /// Counts everything it has begun to wait for; a task or timer of an earlier visit is stale.
    pub visit: u32,
    /// Counts the states it has entered; part of every idempotency key, so a retry keeps it.
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
    /// What has to be undone to turn back, oldest first; grows before each action starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trail: Vec<TrailEntry>,
    /// The state in which it passed the point of no return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pivot: Option<String>,
    /// What allows it to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorisation: Option<Authorisation>,
    /// How often the plan has changed after it was authorised.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_again: u32,
    /// The approval under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ballot: Option<Ballot>,
    /// When it was promised to be over, as the alarm is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Timestamp>,
    /// That moment has passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "broken")]
    pub promise_missed: bool,
    /// What last went wrong for good and was led elsewhere by the workflow: a refusal that it waits out, a failure with a way of
    /// its own. Kept, so that whoever looks sees why it stands where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// Signals that came before they were waited for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub signals: BTreeSet<String>,
    /// Who paused it, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Who asked to cancel it, while work in flight is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<String>,
    /// Who asked for it: never decides on it.
    pub requested_by: String,
    /// Where the credential came from by which it was asked for, if the server said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Provenance>,
    /// Who changed its plan since: they do not decide on it either.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shaped_by: BTreeSet<String>,
    /// What started it, if another execution did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The schema that its plan's digest is made with, if that is an earlier one than the workflow's: the one at which it was
    /// first read by a later version. So a plan that an upgrade leaves as it was keeps its name, and with it its votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_schema: Option<u32>,
    /// The workflow's own.
    pub data: W,
}

/// The work of one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// It has been asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// When it was first asked for.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub first_at: Timestamp,
    /// Attempts that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// Counts the times that an operator has changed what it does; part of the idempotency key.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "edition")]
    pub slot_revision: u32,
    /// The outcome of the last attempt is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubt: bool,
    /// The last thing that an attempt said of how far it had come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat: Option<String>,
    /// What the last attempt failed with, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ActionError>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Result<Value, ActionError>>,
}

/// A slot that was not asked for is stored without a moment: thousands of these are a few kilobytes.
fn is_unset(at: &Timestamp) -> bool {
    *at == Timestamp(0)
}

impl<W: Workflow> Execution<W> {
    /// Returns true if it was closed by force and something that it made is still there.
    #[must_use]
    pub fn has_leftovers(&self) -> bool {
        matches!(self.phase, Phase::Finished { outcome: crate::Outcome::Terminated, .. })
            && self.trail.iter().any(crate::TrailEntry::needs_undo)
    }

    /// An execution of `data` that has not started.
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

    /// The digest of the plan as the data stands.
    #[must_use]
    pub fn digest(&self) -> PlanDigest {
        self.digest_of(&self.data)
    }

    /// The digest of the plan if its data were `data`.
    pub(crate) fn digest_of(&self, data: &W) -> PlanDigest {
        data.plan().digest(W::NAME, self.plan_schema.unwrap_or(W::SCHEMA))
    }

    /// The phase as lists show it: `paused` hides what it was doing.
    #[must_use]
    pub fn phase_name(&self) -> &'static str {
        match (&self.phase, &self.paused) {
            (Phase::Forward | Phase::Compensating(_), Some(_)) => "paused",
            (phase, _) => phase.name(),
        }
    }

    /// Why an operator should look: why it is parked, or that it is late; or how it finished.
    #[must_use]
    pub fn reason_name(&self) -> Option<&'static str> {
        match &self.phase {
            Phase::Parked { reason, .. } => Some(reason.into()),
            Phase::Finished { outcome, .. } => Some(outcome.into()),
            Phase::Forward | Phase::Compensating(_) => self.promise_missed.then(|| Reason::Overdue.into()),
        }
    }
}

/// The state of `W` with this name.
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
