//! What the check, the diagram and the registry must know of a workflow that another one starts.

use crate::{
    Commitment, Flaw, Step, Workflow,
    authoring::check::{Graph, check},
    model::step::Authority,
    runtime::erased_workflow::{Machine, Of},
};
use std::sync::Arc;
use strum::VariantArray;

/// A workflow that another one starts, with its type forgotten.
pub(crate) struct Kind<P> {
    pub(crate) workflow: &'static str,
    /// The weakest authority on which it may be started; those named have been asked before.
    pub(crate) needs: fn(&mut Vec<&'static str>) -> Authority,
    pub(crate) check: fn() -> Vec<Flaw>,
    pub(crate) machine: fn() -> Arc<dyn Machine<P>>,
    pub(crate) kin: fn() -> Vec<Kind<P>>,
}

impl<P: Send + Sync + 'static> Kind<P> {
    pub(crate) fn of<C: Workflow<Platform = P>>() -> Self {
        Self {
            workflow: C::NAME,
            needs: needs::<C>,
            check: check::<C>,
            machine: || Arc::new(Of::<C>::new()),
            kin: kin_of::<C>,
        }
    }
}

impl<P> Kind<P> {
    /// What a step that starts it does, as diagrams say it.
    pub(crate) fn title(&self) -> String {
        format!("start {}", self.workflow)
    }

    /// The weakest authority on which it may be started.
    pub(crate) fn authority(&self) -> Authority {
        (self.needs)(&mut Vec::new())
    }
}

/// The workflows that `W` starts, each once.
pub(crate) fn kin_of<W: Workflow>() -> Vec<Kind<W::Platform>> {
    let mut found: Vec<Kind<W::Platform>> = Vec::new();
    for example in W::examples() {
        for &state in W::State::VARIANTS {
            let Step::Act(act) = example.step(state) else { continue };
            found.extend(act.kin.filter(|kind| !found.iter().any(|known| known.workflow == kind.workflow)));
        }
    }
    found
}

/// The workflows that `W` starts, those that they start, and so on, each once.
pub(crate) fn family<W: Workflow>() -> Vec<Kind<W::Platform>> {
    let mut found = kin_of::<W>();
    let mut next = 0;
    while let Some(kind) = found.get(next) {
        for kind in (kind.kin)() {
            if kind.workflow != W::NAME && !found.iter().any(|known| known.workflow == kind.workflow) {
                found.push(kind);
            }
        }
        next += 1;
    }
    found
}

/// A child that goes by its parent's authority may pass its point of no return on a waiver of the parent, unless it, or a
/// child of its own, destroys.
fn needs<C: Workflow>(asked: &mut Vec<&'static str>) -> Authority {
    if !C::AUTHORISED_BY_PARENT || asked.contains(&C::NAME) {
        return Authority::None;
    }
    asked.push(C::NAME);
    let examples = C::examples();
    let graph = Graph::<C>::of(&examples);
    let steps = C::State::VARIANTS.iter().flat_map(|state| graph.steps(*state));
    let step = |step: &Step<C>| match step {
        Step::Act(act) if act.commitment == (Commitment::ForwardOnly { destroys: true }) => Authority::People,
        Step::Act(act) => act.kin.as_ref().map_or(Authority::None, |kind| (kind.needs)(asked)),
        Step::Approval(_) | Step::Wait(_) | Step::Choose(_) | Step::End(_) => Authority::None,
    };
    steps.map(step).max().unwrap_or(Authority::None).max(Authority::Waiver)
}
