//! Attempts, answers, and the one answer that a run withholds.

use serde_json::Value;
use std::{collections::BTreeSet, fmt};
use store::ExecutionId;
use workflows::{destruction::certificate::Source, platform::TenantResource};

/// An attempt, as the engine began it.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) execution: ExecutionId,
    pub(super) action: String,
    pub(super) arguments: Value,
    pub(super) state: String,
    pub(super) slot: u32,
}

/// An answer in the journal.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) attempt: Attempt,
    pub(super) output: Value,
}

impl Answer {
    /// Returns the objects, nodes and devices that it concerns.
    fn about(&self) -> BTreeSet<String> {
        about(&self.attempt.arguments)
    }

    pub(super) fn is(&self, source: &Source) -> bool {
        match source {
            Source::Decision(action) => self.attempt.action == *action,
            Source::Observation(answer) => {
                self.attempt.action == answer.action()
                    && (self.attempt.action == "VerifyNothingLeft" || self.about().contains(answer.about()))
            }
            Source::Program
            | Source::Request
            | Source::Vote { .. }
            | Source::Person { .. }
            | Source::NotRecorded => false,
        }
    }
}

fn about(arguments: &Value) -> BTreeSet<String> {
    let text = |field: &str| arguments.get(field).and_then(Value::as_str).map(str::to_owned);
    let thing = |thing: &Value| {
        serde_json::from_value::<TenantResource>(thing.clone()).ok().map(|thing| thing.to_string())
    };
    let things = arguments.get("things").and_then(Value::as_array).into_iter().flatten();
    let named = things.chain(arguments.get("thing")).filter_map(thing);
    named.chain(["serial", "uuid", "node", "tenant"].into_iter().filter_map(text)).collect()
}

/// A source that is removed from the journal, and its answer.
#[derive(Clone, Debug)]
pub(super) struct Withheld {
    source: Source,
    pub(super) answer: Option<Answer>,
    /// The states in which the execution of that answer received answers of the source.
    states: BTreeSet<String>,
}

impl Withheld {
    /// The error code of an action whose answer is withheld.
    pub(super) const CODE: &str = "answer.withheld";

    /// Withholds a vote.
    pub(super) fn vote(source: Source) -> Self {
        Self { source, answer: None, states: BTreeSet::new() }
    }

    /// Withholds the last answer of this source, and the earlier ones of the same execution: any of them is the source.
    pub(super) fn answers(source: Source, all: &[Answer]) -> Option<Self> {
        let answers = || all.iter().filter(|answer| answer.is(&source));
        let answer = answers().next_back()?.clone();
        let same = answers().filter(|other| other.attempt.execution == answer.attempt.execution);
        let states = same.map(|other| other.attempt.state.clone()).collect();
        Some(Self { source, answer: Some(answer), states })
    }

    fn source(&self) -> &Source {
        &self.source
    }

    /// Returns true if the answers of this attempt are withheld: same action, same object, and one of the states.
    pub(super) fn is_attempt(&self, attempt: &Attempt) -> bool {
        self.states.contains(&attempt.state)
            && Answer { attempt: attempt.clone(), output: Value::Null }.is(self.source())
    }

    pub(super) fn is(&self, source: &Source) -> bool {
        self.source == *source
    }

    pub(super) fn name(&self) -> &str {
        self.answer.as_ref().map_or("a vote", |answer| &answer.attempt.action)
    }

    /// Returns true if this is the voter's vote on this approval.
    pub(super) fn is_vote(&self, of: &str, voter: &str) -> bool {
        matches!(&self.source, Source::Vote { gate, by } if gate == of && by == voter)
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// Returns true if the source is a journal entry that can be withheld.
pub(super) fn is_answer(source: &Source) -> bool {
    match source {
        Source::Vote { .. } | Source::Decision(_) | Source::Observation(_) => true,
        Source::Program | Source::Request | Source::Person { .. } | Source::NotRecorded => false,
    }
}
