//! The static check: a workflow that could strand an execution is not registered.

use crate::{
    Commitment, Flaw, Step, Workflow,
    model::definition::{
        child::CANCEL,
        graph::{StateGraph, StepKind},
        step::Authority,
    },
};
use std::collections::{BTreeMap, BTreeSet};
use strum::VariantArray;

/// Returns all flaws of `W`; empty for a sound workflow.
#[must_use]
pub fn check<W: Workflow>() -> Vec<Flaw> {
    let examples = W::examples();
    if examples.is_empty() {
        return vec![Flaw::NoExamples];
    }
    let graph = StateGraph::<W>::from_examples(&examples);
    let name = |state: W::State| Into::<&str>::into(state).to_owned();
    let mut flaws = Vec::new();
    let reachable = graph.reach(W::INITIAL);
    for &state in W::State::VARIANTS {
        if !reachable.contains(&state) {
            flaws.push(Flaw::Unreachable(name(state)));
            continue;
        }
        if !graph.reach(state).iter().any(|s| graph.kinds(*s).contains(&StepKind::End)) {
            flaws.push(Flaw::DeadEnd(name(state)));
        }
        if graph.steps(state).any(|step| lacks_deadline(step)) {
            flaws.push(Flaw::NoDeadline(name(state)));
        }
        if graph.steps(state).any(|step| matches!(step, Step::Approval(asked) if asked.asks_nobody())) {
            flaws.push(Flaw::NoSeats(name(state)));
        }
        if graph.steps(state).any(leaves_unprotected) {
            flaws.push(Flaw::LeavesUnprotected(name(state)));
        }
        let kinds = graph.kinds(state);
        if kinds.windows(2).any(|pair| pair.first() != pair.last()) {
            flaws.push(Flaw::Inconsistent(name(state)));
        }
    }
    flaws.extend(graph.pivots(&reachable));
    flaws.extend(graph.ambiguous_actions());
    flaws
}

fn lacks_deadline<W: Workflow>(step: &Step<W>) -> bool {
    match step {
        Step::Approval(approval) => approval.within.is_none(),
        Step::Wait(wait) => wait.within.is_none(),
        Step::Act(_) | Step::Choose(_) | Step::End(_) => false,
    }
}

/// Returns true if the step can continue without its protection.
fn leaves_unprotected<W: Workflow>(step: &Step<W>) -> bool {
    match step {
        Step::Act(act) => act.leaves_unprotected(),
        Step::Approval(_) | Step::Wait(_) | Step::Choose(_) | Step::End(_) => false,
    }
}

impl<W: Workflow> StateGraph<W> {
    fn pivots(&self, reachable: &[W::State]) -> Vec<Flaw> {
        let name = |state: W::State| Into::<&str>::into(state).to_owned();
        let mut flaws = Vec::new();
        let weakest = self.weakest_authority();
        for &state in reachable {
            let needed = self.steps(state).filter_map(Step::authority_needed).max().unwrap_or((false, false));
            let authority = weakest.iter().find(|(s, _)| *s == state).map_or(Authority::None, |(_, a)| *a);
            if needed.0 && authority == Authority::None {
                flaws.push(Flaw::Unauthorised(name(state)));
            }
            if needed.1 && authority == Authority::Waiver {
                flaws.push(Flaw::DestroysWithoutPeople(name(state)));
            }
            if self.commitment(state, |c| matches!(c, Commitment::ForwardOnly { .. })) {
                let after = self
                    .reach(state)
                    .into_iter()
                    .filter(|s| self.commitment(*s, |c| c == Commitment::Undone));
                flaws.extend(after.map(|s| Flaw::UndoAfterPivot(name(s))));
            }
        }
        flaws.dedup();
        flaws
    }

    /// Returns a flaw for each action name of more than one type. Undos are found by name, so a name must have one type.
    fn ambiguous_actions(&self) -> Vec<Flaw> {
        let mut types = BTreeMap::from([(CANCEL, None)]);
        let mut ambiguous = BTreeSet::new();
        for step in self.states.iter().flat_map(|(_, steps)| steps) {
            let Step::Act(act) = step else { continue };
            let undos = act.branches.iter().filter_map(|branch| Some(&branch.undo.as_ref()?.action));
            for deed in act.branches.iter().map(|branch| &branch.action).chain(undos) {
                if *types.entry(deed.name).or_insert(deed.type_id) != deed.type_id {
                    ambiguous.insert(deed.name);
                }
            }
        }
        ambiguous.into_iter().map(|name| Flaw::AmbiguousAction(name.to_owned())).collect()
    }

    /// Returns, for each state, the weakest authorisation with which a path can reach it.
    fn weakest_authority(&self) -> Vec<(W::State, Authority)> {
        // A workflow with its parent's authority has it from the start; the check of the parent judges whether it
        // suffices.
        let first = if W::AUTHORISED_BY_PARENT { Authority::People } else { Authority::None };
        let mut best: Vec<(W::State, Authority)> = vec![(W::INITIAL, first)];
        let mut next = 0;
        // A state is visited again only with a weaker authority, so this loop ends.
        while let Some(&(state, authority)) = best.get(next) {
            for way in self.exits(state) {
                let arriving = if way.authorises == Authority::None { authority } else { way.authorises };
                if !best.iter().any(|(s, known)| *s == way.to && *known <= arriving) {
                    best.push((way.to, arriving));
                }
            }
            next += 1;
        }
        best.sort_by_key(|(_, authority)| *authority);
        best
    }
}
