//! Facts about a child workflow, for the check, the diagram and the registry.

use crate::{
    Commitment, Step, Workflow, check,
    model::definition::{
        child_type::ChildType, child_workflows::children_of, graph::StateGraph, step::Authority,
    },
    runtime::adapter::typed_workflow::TypedWorkflow,
};
use std::sync::Arc;
use strum::VariantArray;

impl<P: Send + Sync + 'static> ChildType<P> {
    pub(crate) fn for_workflow<C: Workflow<Platform = P>>() -> Self {
        Self {
            workflow: C::NAME,
            needs: authority_needed::<C>,
            check: check::<C>,
            machine: || Arc::new(TypedWorkflow::<C>::new()),
            children: children_of::<C>,
        }
    }
}

/// A child with its parent's authority may pass its pivot on a waiver of the parent, unless it or one of its own
/// children destroys data.
fn authority_needed<C: Workflow>(asked: &mut Vec<&'static str>) -> Authority {
    if !C::AUTHORISED_BY_PARENT || asked.contains(&C::NAME) {
        return Authority::None;
    }
    asked.push(C::NAME);
    let examples = C::examples();
    let graph = StateGraph::<C>::from_examples(&examples);
    let steps = C::State::VARIANTS.iter().flat_map(|state| graph.steps(*state));
    let step = |step: &Step<C>| match step {
        Step::Act(act) if act.commitment == (Commitment::ForwardOnly { destroys: true }) => Authority::People,
        Step::Act(act) => act.child_type.as_ref().map_or(Authority::None, |kind| (kind.needs)(asked)),
        Step::Approval(_) | Step::Wait(_) | Step::Choose(_) | Step::End(_) => Authority::None,
    };
    steps.map(step).max().unwrap_or(Authority::None).max(Authority::Waiver)
}
