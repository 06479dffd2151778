//! The states of a workflow as a graph: every step of every state, for each example. Pure.
//!
//! Used by the static check, the diagram, and the core before a break-glass vote.

use super::step::Exit;
use crate::{Commitment, Step, Workflow};
use strum::VariantArray as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    Act,
    Approval,
    Wait,
    Choose,
    End,
}

/// Every step of every state, for each example.
pub(crate) struct StateGraph<W: Workflow> {
    pub(crate) states: Vec<(W::State, Vec<Step<W>>)>,
}

impl<W: Workflow> StateGraph<W> {
    pub(crate) fn from_examples(examples: &[W]) -> Self {
        let steps = |state| examples.iter().map(|example| example.step(state)).collect();
        Self { states: W::State::VARIANTS.iter().map(|&state| (state, steps(state))).collect() }
    }

    pub(crate) fn steps(&self, state: W::State) -> impl Iterator<Item = &Step<W>> {
        self.states.iter().filter(move |(s, _)| *s == state).flat_map(|(_, steps)| steps)
    }

    pub(crate) fn kinds(&self, state: W::State) -> Vec<StepKind> {
        let kind = |step: &Step<W>| match step {
            Step::Act(_) => StepKind::Act,
            Step::Approval(_) => StepKind::Approval,
            Step::Wait(_) => StepKind::Wait,
            Step::Choose(_) => StepKind::Choose,
            Step::End(_) => StepKind::End,
        };
        self.steps(state).map(kind).collect()
    }

    pub(crate) fn exits(&self, state: W::State) -> Vec<Exit<W::State>> {
        self.steps(state).flat_map(|step| step.exits(state)).collect()
    }

    pub(crate) fn reach(&self, from: W::State) -> Vec<W::State> {
        let mut seen = vec![from];
        let mut next = 0;
        while let Some(&state) = seen.get(next) {
            for way in self.exits(state) {
                if !seen.contains(&way.to) {
                    seen.push(way.to);
                }
            }
            next += 1;
        }
        seen
    }

    pub(crate) fn commitment(&self, state: W::State, wanted: impl Fn(Commitment) -> bool) -> bool {
        self.steps(state).any(|step| matches!(step, Step::Act(act) if wanted(act.commitment)))
    }
}

/// Returns the first state after `from` that destroys data, up to the next approval, for the current `data`.
pub(crate) fn destruction_after<W: Workflow>(data: &W, from: W::State) -> Option<String> {
    let graph = StateGraph::<W>::from_examples(std::slice::from_ref(data));
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(&state) = seen.get(next) {
        next += 1;
        let destroys = |step: &Step<W>| step.authority_needed().is_some_and(|(_, people)| people);
        if graph.steps(state).any(destroys) {
            return Some(Into::<&str>::into(state).to_owned());
        }
        if graph.kinds(state).contains(&StepKind::Approval) {
            continue;
        }
        for way in graph.exits(state) {
            if !seen.contains(&way.to) {
                seen.push(way.to);
            }
        }
    }
    None
}
