//! The journal of a run: which actions answered about what, who voted, and who repaired.

use super::{is_answer, run::Withheld};
use engine::{Call, FaultInjector, InjectedFault};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};
use store::{Entry, ExecutionId};
use workflows::{
    destruction::certificate::{Source, Statement},
    platform::TenantResource,
};

/// One attempt, as the engine began it.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) execution: ExecutionId,
    pub(super) action: String,
    pub(super) arguments: Value,
    pub(super) state: String,
    pub(super) slot: u32,
}

/// Notes each attempt, and withholds the answers of one.
#[derive(Debug, Default)]
pub(super) struct Tap {
    pub(super) withheld: Option<Withheld>,
    pub(super) attempts: Mutex<Vec<Attempt>>,
    pub(super) hits: Mutex<usize>,
}

impl FaultInjector for Tap {
    fn inject(&self, name: &str, arguments: &Value, call: &Call) -> InjectedFault {
        let (execution, state, slot) = (call.execution, call.state.clone(), call.slot);
        let attempt =
            Attempt { execution, action: name.into(), arguments: arguments.clone(), state, slot };
        let hit = self.withheld.as_ref().is_some_and(|withheld| withheld.is_attempt(&attempt));
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
        if !hit {
            return InjectedFault::NoFault;
        }
        *self.hits.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        InjectedFault::After(engine::ActionError::permanent(Withheld::CODE, "the answer was withheld"))
    }
}

/// An answer in the journal.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) attempt: Attempt,
    pub(super) output: Value,
}

impl Answer {
    /// The things, nodes and devices that it is about.
    fn about(&self) -> BTreeSet<String> {
        about(&self.attempt.arguments)
    }

    fn is(&self, source: &Source) -> bool {
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

/// What the journal of a run says.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) answers: Vec<Answer>,
    votes: BTreeSet<(String, String)>,
    people: BTreeSet<(String, String)>,
    started: bool,
}

impl Journal {
    pub(super) fn read(entries: &[Entry], attempts: &[Attempt]) -> Self {
        let mut journal = Self::default();
        let mut latest: BTreeMap<(ExecutionId, &str, u32), &Attempt> = BTreeMap::new();
        for attempt in attempts {
            latest.insert((attempt.execution, &attempt.state, attempt.slot), attempt);
        }
        for entry in entries {
            let detail: Value = serde_json::from_slice(&entry.detail).unwrap_or_default();
            let event = detail.get("event").unwrap_or(&Value::Null);
            match entry.event.as_str() {
                "started" => journal.started = true,
                "voted" => journal.votes.extend([(entry.from.clone(), entry.actor.clone())]),
                "repaired" => journal.people.extend([(entry.from.clone(), entry.actor.clone())]),
                "settled" | "probed" => {
                    let output = event.pointer("/settled/result/Ok").or(event.pointer("/probed/answer/done"));
                    let slot = event.pointer("/settled/ticket/slot").or(event.pointer("/probed/ticket/slot"));
                    let slot = slot.and_then(Value::as_u64).and_then(|slot| u32::try_from(slot).ok());
                    let (Some(output), Some(slot)) = (output, slot) else { continue };
                    let begun = latest.get(&(entry.execution, entry.from.as_str(), slot));
                    let made =
                        begun.map(|begun| Answer { attempt: (*begun).clone(), output: output.clone() });
                    journal.answers.extend(made);
                }
                _ => {}
            }
        }
        journal
    }

    /// Returns true if the source is in the journal.
    pub(super) fn has(&self, source: &Source) -> bool {
        match source {
            Source::Program => true,
            Source::Request => self.started,
            Source::Vote { gate, by } => self.votes.contains(&(gate.clone(), by.clone())),
            Source::Person { state, by } => self.people.contains(&(state.clone(), by.clone())),
            Source::Decision(_) | Source::Observation(_) => {
                self.answers.iter().any(|answer| answer.is(source))
            }
            Source::NotRecorded => false,
        }
    }

    /// What can be withheld so that one of these sentences loses a source: each source once.
    pub(super) fn answers_behind(&self, said: &[Statement]) -> Vec<Withheld> {
        let sources: BTreeSet<&Source> =
            said.iter().flat_map(Statement::sources).filter(|source| is_answer(source)).collect();
        let withheld = |source: &&Source| {
            let answer = self.answers.iter().rev().find(|answer| answer.is(source));
            match source {
                Source::Vote { .. } => Some(Withheld::new((*source).clone(), None)),
                Source::Decision(_) | Source::Observation(_) => {
                    Some(Withheld::new((*source).clone(), Some(answer?.clone())))
                }
                Source::Program | Source::Request | Source::Person { .. } | Source::NotRecorded => None,
            }
        };
        sources.iter().filter_map(withheld).collect()
    }
}

impl Withheld {
    /// Returns true if it is an attempt whose answers are withheld: each of the action about the thing, in the state that answered last.
    pub(super) fn is_attempt(&self, attempt: &Attempt) -> bool {
        self.state() == Some(attempt.state.as_str())
            && Answer { attempt: attempt.clone(), output: Value::Null }.is(self.source())
    }
}
