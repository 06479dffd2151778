//! Who did it, who looked, and what a person merely stated.
//!
//! A repair that marks a step as done is a statement of a person. Invariant: a record that rests on a statement names the
//! person and never counts as verified, and nobody verifies their own work.

use super::{
    observation::Observations,
    parts::{Actor, Tool, Verification},
    record::{SanitisationOutcome, SanitisationRecord},
    rejection::NotClean,
};
use crate::{
    platform::{RemoveThing, RewrapThing, ShredKey, TenantResource},
    signing::Moment,
};
use engine::{Action as _, MadeRepair};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use store::ExecutionId;

/// The kind of a repair that states that a step is done.
pub(crate) const MARK_DONE: &str = "mark_done";
/// The kind of a repair that leaves a step out: what it would have observed is accepted as an exception.
pub(crate) const SKIP: &str = "skip";

/// A repair that people made in an execution, as records and certificates name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRepair {
    /// In which execution.
    pub execution: ExecutionId,
    /// The kind, such as `mark_done` or `skip`.
    pub kind: String,
    /// The state that was repaired.
    pub state: String,
    /// The action that was marked as done or left out; empty for an edit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The things that the statement is about: those that the action was to act on, and those that the stated result names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub things: Vec<String>,
    /// Who made it.
    pub by: String,
    /// Who agreed to it as a second person, where policy asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<String>,
    /// When.
    pub at: Moment,
    /// Why, in the person's words.
    pub reason: String,
    /// What the person gave as evidence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// What the step had failed with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

impl RecordedRepair {
    /// The repair as it was made in `execution`.
    #[must_use]
    pub fn new(made: &MadeRepair, execution: ExecutionId) -> Self {
        let named = |value: &Value| {
            let thing = value.get("thing").cloned().and_then(|it| TenantResource::deserialize(it).ok());
            let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
            thing.map(|thing| thing.to_string()).or_else(|| text("serial")).or_else(|| text("uuid"))
        };
        let mut things: Vec<_> = [&made.arguments, &made.output].into_iter().filter_map(named).collect();
        things.dedup();
        Self {
            execution,
            kind: made.kind.clone(),
            state: made.state.clone(),
            action: made.action.clone(),
            things,
            by: made.by.clone(),
            seconded_by: made.seconded_by.clone(),
            at: made.at.into(),
            reason: made.reason.clone(),
            evidence: made.evidence.clone(),
            errors: made.errors.clone(),
        }
    }

    /// Returns true if a person stated by it that a step is done.
    #[must_use]
    pub fn is_statement(&self) -> bool {
        self.kind == MARK_DONE
    }

    /// Returns true if a person stated by it that data is gone, or under another key.
    #[must_use]
    pub fn claims_removal(&self) -> bool {
        self.is_statement()
            && [ShredKey::NAME, RemoveThing::NAME, RewrapThing::NAME].contains(&self.action.as_str())
    }

    /// Returns true if a step was left out by it.
    #[must_use]
    pub fn is_exception(&self) -> bool {
        self.kind == SKIP
    }

    /// The people, for a sentence: `olga, seconded by lena`.
    #[must_use]
    pub fn people(&self) -> String {
        match &self.seconded_by {
            Some(second) => format!("{}, seconded by {second}", self.by),
            None => self.by.clone(),
        }
    }

    /// The repair in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let what =
            if self.things.is_empty() { String::new() } else { format!(" {}", self.things.join(", ")) };
        let did = match self.kind.as_str() {
            MARK_DONE => format!("stated, not observed: {}{what} in {} is done", self.action, self.state),
            SKIP => format!("accepted as an exception: {} in {} was left out", self.action, self.state),
            other => format!("repaired {} ({other})", self.state),
        };
        let errors = if self.errors.is_empty() {
            String::new()
        } else {
            format!("; it had failed with {}", self.errors.join("; "))
        };
        format!("{} at {} {did}; reason: {}{errors}", self.people(), self.at, self.reason)
    }
}

/// The last statement of a person that this thing is gone, or under another key, if there is one.
pub(crate) fn statement_about(
    repairs: &[MadeRepair],
    execution: ExecutionId,
    thing: &TenantResource,
) -> Option<RecordedRepair> {
    let name = thing.to_string();
    let mut made = repairs.iter().rev().map(|made| RecordedRepair::new(made, execution));
    made.find(|repair| repair.claims_removal() && repair.things.contains(&name))
}

impl SanitisationRecord {
    /// The record as far as it rests on the statement of a person: it names the person, and nothing in it is observed.
    #[must_use]
    pub(crate) fn stated_by(self, repair: RecordedRepair) -> Self {
        let result = match self.result {
            SanitisationOutcome::SanitisedVerified | SanitisationOutcome::SanitisedUnverified => {
                SanitisationOutcome::SanitisedUnverified
            }
            SanitisationOutcome::NotApplicable { rule, destroy_by, .. } => {
                SanitisationOutcome::NotApplicable {
                    rule,
                    reason: format!("stated by {}, and not observed", repair.people()),
                    destroy_by,
                }
            }
            kept @ (SanitisationOutcome::Failed { .. }
            | SanitisationOutcome::Skipped { .. }
            | SanitisationOutcome::PhysicallyDestroyed { .. }
            | SanitisationOutcome::Unknown) => kept,
        };
        let command = "stated, not observed".to_owned();
        Self {
            actor: Actor::person(repair.people(), "operator"),
            tool: Tool { name: "a person".into(), version: String::new(), command },
            ended_at: self.ended_at.map(|ended| ended.max(repair.at)),
            key: None,
            verification: None,
            validation: None,
            destination: None,
            evidence: BTreeMap::new(),
            result,
            stated: Some(repair),
            observed: Observations::new(),
            ..self
        }
    }

    /// Refuses a record that rests on the statement of a person, whatever it says beside.
    pub(super) fn observed(&self) -> Result<(), NotClean> {
        match (&self.stated, &self.result) {
            (None, _)
            | (
                Some(_),
                SanitisationOutcome::Failed { .. }
                | SanitisationOutcome::Skipped { .. }
                | SanitisationOutcome::Unknown,
            ) => Ok(()),
            (
                Some(repair),
                SanitisationOutcome::SanitisedVerified
                | SanitisationOutcome::SanitisedUnverified
                | SanitisationOutcome::NotApplicable { .. }
                | SanitisationOutcome::PhysicallyDestroyed { .. },
            ) => Err(NotClean::Stated { by: repair.people() }),
        }
    }

    /// Refuses a verification by whoever did the work.
    pub(super) fn looked_at_by_another(&self, verification: &Verification) -> Result<(), NotClean> {
        if same_actor(&verification.actor, &self.actor) {
            return Err(NotClean::VerifierIsDoer { actor: self.actor.name.clone() });
        }
        Ok(())
    }
}

/// Returns true if the names are those of one actor, whatever their case and the spaces around them.
pub(crate) fn same_actor(a: &Actor, b: &Actor) -> bool {
    a.name.trim().to_lowercase() == b.name.trim().to_lowercase()
}
