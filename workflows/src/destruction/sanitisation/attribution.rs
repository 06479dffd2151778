//! The actors of a record: who did the work, who verified it, and who only stated it.
//!
//! A repair that marks a step as done is a statement of an operator. Invariant: a record that rests on a statement names the operator and never
//! counts as verified, and no actor verifies its own work.

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

/// The kind of a repair that marks a step as done.
pub(crate) const MARK_DONE: &str = "mark_done";
/// The kind of a repair that skips a step. Its missing observation is accepted as an exception.
pub(crate) const SKIP: &str = "skip";

/// A repair of an execution, as records and certificates list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRepair {
    /// The repaired execution.
    pub execution: ExecutionId,
    /// The kind, such as `mark_done` or `skip`.
    pub kind: String,
    /// The state that was repaired.
    pub state: String,
    /// The marked or skipped action. Empty for an edit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The resources of the statement: those in the action's arguments and those in the stated result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub things: Vec<String>,
    /// The operator who made it.
    pub by: String,
    /// The second person who agreed, if policy requires one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<String>,
    /// The time of the repair.
    pub at: Moment,
    /// The operator's reason.
    pub reason: String,
    /// The operator's evidence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The errors of the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

impl RecordedRepair {
    /// Returns the record of a repair in `execution`.
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

    /// Returns true if it states that a step is done.
    #[must_use]
    pub fn is_statement(&self) -> bool {
        self.kind == MARK_DONE
    }

    /// Returns true if it states that data are gone, or encrypted with another key.
    #[must_use]
    pub fn claims_removal(&self) -> bool {
        self.is_statement()
            && [ShredKey::NAME, RemoveThing::NAME, RewrapThing::NAME].contains(&self.action.as_str())
    }

    /// Returns true if it skips a step.
    #[must_use]
    pub fn is_exception(&self) -> bool {
        self.kind == SKIP
    }

    /// Returns the names for a sentence: `olga, seconded by lena`.
    #[must_use]
    pub fn people(&self) -> String {
        match &self.seconded_by {
            Some(second) => format!("{}, seconded by {second}", self.by),
            None => self.by.clone(),
        }
    }

    /// Returns the repair as one sentence.
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

/// Returns the last statement that this resource is gone, or encrypted with another key.
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
    /// Returns the record based on a statement: it names the operator, and has no observations.
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

    /// Rejects a record that rests on a statement.
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

    /// Rejects a verification by the actor that did the work.
    pub(super) fn looked_at_by_another(&self, verification: &Verification) -> Result<(), NotClean> {
        if same_actor(&verification.actor, &self.actor) {
            return Err(NotClean::VerifierIsDoer { actor: self.actor.name.clone() });
        }
        Ok(())
    }
}

/// Returns true if the names are equal except for case and surrounding spaces.
pub(crate) fn same_actor(a: &Actor, b: &Actor) -> bool {
    a.name.trim().to_lowercase() == b.name.trim().to_lowercase()
}
