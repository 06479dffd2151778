//! The journal of a run: answers of actions, votes and repairs.

use super::withheld::{Answer, Attempt, Withheld, is_answer};
use engine::{ActionError, Call, FaultInjector, InjectedFault};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};
use store::{Entry, ExecutionId};
use workflows::destruction::certificate::{Source, Statement};

/// Records each attempt, and withholds the answers of one source.
#[derive(Debug, Default)]
pub(super) struct Tap {
    pub(super) withheld: Option<Withheld>,
    pub(super) attempts: Mutex<Vec<Attempt>>,
    pub(super) hits: Mutex<usize>,
}

impl FaultInjector for Tap {
    fn inject(&self, name: &str, arguments: &Value, call: &Call) -> InjectedFault {
        let attempt = attempt(name, arguments, call);
        let error = self.withhold(&attempt);
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
        error.map_or(InjectedFault::NoFault, InjectedFault::After)
    }

    /// A probe returns the same answer as the attempt, so it is withheld too.
    fn inject_probe(&self, name: &str, arguments: &Value, call: &Call) -> Option<ActionError> {
        self.withhold(&attempt(name, arguments, call))
    }
}

impl Tap {
    /// Returns the error in place of the answer, if the answers of this attempt are withheld.
    fn withhold(&self, attempt: &Attempt) -> Option<ActionError> {
        self.withheld.as_ref().filter(|withheld| withheld.is_attempt(attempt))?;
        *self.hits.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Some(ActionError::permanent(Withheld::CODE, "the answer was withheld"))
    }
}

fn attempt(name: &str, arguments: &Value, call: &Call) -> Attempt {
    let (execution, state, slot) = (call.execution, call.state.clone(), call.slot);
    Attempt { execution, action: name.into(), arguments: arguments.clone(), state, slot }
}

/// The evidence in a run's journal.
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

    /// Returns every answer that can be withheld to remove a source of these sentences, one per source.
    pub(super) fn answers_behind(&self, said: &[Statement]) -> Vec<Withheld> {
        let sources: BTreeSet<&Source> =
            said.iter().flat_map(Statement::sources).filter(|source| is_answer(source)).collect();
        let withheld = |source: &&Source| match source {
            Source::Vote { .. } => Some(Withheld::vote((*source).clone())),
            Source::Decision(_) | Source::Observation(_) => {
                Withheld::answers((*source).clone(), &self.answers)
            }
            Source::Program | Source::Request | Source::Person { .. } | Source::NotRecorded => None,
        };
        sources.iter().filter_map(withheld).collect()
    }
}
