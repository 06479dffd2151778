//! The static check: a workflow that could strand an execution does not register.

use crate::{
    Commitment, Step, Workflow,
    model::{
        child::CANCEL,
        step::{Authority, Way},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use strum::VariantArray;

/// What is wrong with which state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// No way leads there.
    Unreachable(String),
    /// No end can be reached from there.
    DeadEnd(String),
    /// It waits, and does not say until when at the latest.
    NoDeadline(String),
    /// An approval that nobody has to give.
    NoSeats(String),
    /// It pushes a compensation although the point of no return lies behind.
    UndoAfterPivot(String),
    /// It is past the point of no return on a path on which nobody authorised the plan.
    Unauthorised(String),
    /// It destroys data on a path where only a waiver, and no person, authorised it.
    DestroysWithoutPeople(String),
    /// Two states, or the same state in two examples, disagree about what the state does.
    Inconsistent(String),
    /// Two action types, or an action and a child workflow, share this name; or the engine reserves it.
    AmbiguousAction(String),
    /// The workflow shows no example, so nothing can be checked.
    NoExamples,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(s) => write!(f, "{s}: no way leads to this state; remove it, or lead to it"),
            Self::DeadEnd(s) => write!(f, "{s}: no end can be reached from here; add a way out"),
            Self::NoDeadline(s) => write!(f, "{s}: a wait without a deadline; say .within(..)"),
            Self::NoSeats(s) => write!(f, "{s}: an approval without seats; name who must agree"),
            Self::UndoAfterPivot(s) => {
                write!(f, "{s}: an undo after the point of no return would never run; say .forward_only()")
            }
            Self::Unauthorised(s) => {
                write!(
                    f,
                    "{s}: a point of no return that can be reached without an approval or a waiver, its own or a child's"
                )
            }
            Self::DestroysWithoutPeople(s) => {
                write!(
                    f,
                    "{s}: destroys data, and can be reached on a waiver alone; lead through an approval"
                )
            }
            Self::Inconsistent(s) => {
                write!(f, "{s}: what kind of step it is depends on the data; use two states")
            }
            Self::AmbiguousAction(action) => {
                write!(
                    f,
                    "{action}: more than one action type has this NAME, or the engine uses it; give each its own"
                )
            }
            Self::NoExamples => write!(f, "examples() is empty; show values that reach every action"),
        }
    }
}

/// Everything wrong with `W`; empty means sound.
#[must_use]
pub fn check<W: Workflow>() -> Vec<Flaw> {
    let examples = W::examples();
    if examples.is_empty() {
        return vec![Flaw::NoExamples];
    }
    let graph = Graph::<W>::of(&examples);
    let name = |state: W::State| Into::<&str>::into(state).to_owned();
    let mut flaws = Vec::new();
    let reachable = graph.reach(W::INITIAL);
    for &state in W::State::VARIANTS {
        if !reachable.contains(&state) {
            flaws.push(Flaw::Unreachable(name(state)));
            continue;
        }
        if !graph.reach(state).iter().any(|s| graph.kinds(*s).contains(&Kind::End)) {
            flaws.push(Flaw::DeadEnd(name(state)));
        }
        if graph.steps(state).any(|step| lacks_deadline(step)) {
            flaws.push(Flaw::NoDeadline(name(state)));
        }
        if graph.steps(state).any(|step| matches!(step, Step::Approval(asked) if asked.asks_nobody())) {
            flaws.push(Flaw::NoSeats(name(state)));
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

/// The first state that destroys data on the way from `from`, up to the next approval, as `data` stands.
pub(crate) fn destruction_after<W: Workflow>(data: &W, from: W::State) -> Option<String> {
    let graph = Graph::<W>::of(std::slice::from_ref(data));
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(&state) = seen.get(next) {
        next += 1;
        let destroys = |step: &Step<W>| step.authority_needed().is_some_and(|(_, people)| people);
        if graph.steps(state).any(destroys) {
            return Some(Into::<&str>::into(state).to_owned());
        }
        if graph.kinds(state).contains(&Kind::Approval) {
            continue;
        }
        for way in graph.ways(state) {
            if !seen.contains(&way.to) {
                seen.push(way.to);
            }
        }
    }
    None
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Act,
    Approval,
    Wait,
    Choose,
    End,
}

fn lacks_deadline<W: Workflow>(step: &Step<W>) -> bool {
    match step {
        Step::Approval(approval) => approval.within.is_none(),
        Step::Wait(wait) => wait.within.is_none(),
        Step::Act(_) | Step::Choose(_) | Step::End(_) => false,
    }
}

/// Every step of every state, as each example shows it.
pub(crate) struct Graph<W: Workflow> {
    states: Vec<(W::State, Vec<Step<W>>)>,
}

impl<W: Workflow> Graph<W> {
    pub(crate) fn of(examples: &[W]) -> Self {
        let steps = |state| examples.iter().map(|example| example.step(state)).collect();
        Self { states: W::State::VARIANTS.iter().map(|&state| (state, steps(state))).collect() }
    }

    pub(crate) fn steps(&self, state: W::State) -> impl Iterator<Item = &Step<W>> {
        self.states.iter().filter(move |(s, _)| *s == state).flat_map(|(_, steps)| steps)
    }

    fn kinds(&self, state: W::State) -> Vec<Kind> {
        let kind = |step: &Step<W>| match step {
            Step::Act(_) => Kind::Act,
            Step::Approval(_) => Kind::Approval,
            Step::Wait(_) => Kind::Wait,
            Step::Choose(_) => Kind::Choose,
            Step::End(_) => Kind::End,
        };
        self.steps(state).map(kind).collect()
    }

    fn ways(&self, state: W::State) -> Vec<Way<W::State>> {
        self.steps(state).flat_map(|step| step.ways(state)).collect()
    }

    fn reach(&self, from: W::State) -> Vec<W::State> {
        let mut seen = vec![from];
        let mut next = 0;
        while let Some(&state) = seen.get(next) {
            for way in self.ways(state) {
                if !seen.contains(&way.to) {
                    seen.push(way.to);
                }
            }
            next += 1;
        }
        seen
    }

    fn commitment(&self, state: W::State, wanted: impl Fn(Commitment) -> bool) -> bool {
        self.steps(state).any(|step| matches!(step, Step::Act(act) if wanted(act.commitment)))
    }

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
            let undos = act.branches.iter().filter_map(|branch| Some(&branch.undo.as_ref()?.deed));
            for deed in act.branches.iter().map(|branch| &branch.deed).chain(undos) {
                if *types.entry(deed.name).or_insert(deed.type_id) != deed.type_id {
                    ambiguous.insert(deed.name);
                }
            }
        }
        ambiguous.into_iter().map(|name| Flaw::AmbiguousAction(name.to_owned())).collect()
    }

    /// For each state, the weakest authorisation with which some path arrives there.
    fn weakest_authority(&self) -> Vec<(W::State, Authority)> {
        // What goes by its parent's authority has it from the start; the check of the parent sees to its weight.
        let first = if W::AUTHORISED_BY_PARENT { Authority::People } else { Authority::None };
        let mut best: Vec<(W::State, Authority)> = vec![(W::INITIAL, first)];
        let mut next = 0;
        // A state is looked at again only when a weaker authority reaches it, so this ends.
        while let Some(&(state, authority)) = best.get(next) {
            for way in self.ways(state) {
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
