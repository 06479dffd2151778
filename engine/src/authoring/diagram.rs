//! Diagrams of workflows, drawn from the steps themselves: Mermaid for people, JSON for the console.

use crate::{
    Commitment, Diagram, DiagramEdge, DiagramState, Step, Workflow,
    model::definition::{graph::StateGraph, step::DONE},
};
use strum::VariantArray;

/// Returns the diagram of `W`.
#[must_use]
pub fn diagram<W: Workflow>() -> Diagram {
    let examples = W::examples();
    let graph = StateGraph::<W>::from_examples(&examples);
    let mut edges: Vec<DiagramEdge> = Vec::new();
    let mut states = Vec::new();
    for &state in W::State::VARIANTS {
        let name: &str = state.into();
        let mut drawn = DiagramState {
            name: name.into(),
            kind: "act",
            actions: Vec::new(),
            undos: Vec::new(),
            forward_only: false,
        };
        for step in graph.steps(state) {
            describe(step, &mut drawn);
        }
        for edge in merged_edges(&graph, state, &drawn) {
            if !edges.contains(&edge) {
                edges.push(edge);
            }
        }
        states.push(drawn);
    }
    let initial: &str = W::INITIAL.into();
    Diagram { workflow: W::NAME.into(), schema: W::SCHEMA, initial: initial.into(), states, edges }
}

fn describe<W: Workflow>(step: &Step<W>, into: &mut DiagramState) {
    let add = |list: &mut Vec<String>, name: &str| {
        if !list.iter().any(|known| known == name) {
            list.push(name.to_owned());
        }
    };
    match step {
        Step::Act(act) => {
            into.kind = "act";
            into.forward_only |= matches!(act.commitment, Commitment::ForwardOnly { .. });
            if let Some(kind) = &act.child_type {
                add(&mut into.actions, &kind.title());
            }
            for branch in &act.branches {
                if act.child_type.is_none() {
                    add(&mut into.actions, branch.action.name);
                }
                if let Some(undo) = &branch.undo {
                    add(&mut into.undos, undo.action.name);
                }
            }
        }
        Step::Approval(_) => into.kind = "approval",
        Step::Wait(_) => into.kind = "wait",
        Step::Choose(_) => into.kind = "choose",
        Step::End(_) => into.kind = "end",
    }
}

/// Merges the edges of a state over all examples. Examples that differ only in the number of actions or in the
/// approvers give one edge, with the text of the first; the edge of success names every action.
fn merged_edges<W: Workflow>(
    graph: &StateGraph<W>,
    state: W::State,
    drawn: &DiagramState,
) -> Vec<DiagramEdge> {
    let mut edges: Vec<DiagramEdge> = Vec::new();
    for step in graph.steps(state) {
        for way in step.exits(state) {
            let to: &str = way.to.into();
            if edges.iter().any(|edge| edge.to == to && edge.label == way.label) {
                continue;
            }
            let named = way.label == DONE && !drawn.actions.is_empty();
            let text = if named { drawn.actions.join(", ") } else { way.text };
            edges.push(DiagramEdge { from: drawn.name.clone(), label: way.label, text, to: to.into() });
        }
        if let Step::End(outcome) = step {
            let label: &str = outcome.into();
            let end = DiagramEdge {
                from: drawn.name.clone(),
                label: label.into(),
                text: label.into(),
                to: "[*]".into(),
            };
            if !edges.contains(&end) {
                edges.push(end);
            }
        }
    }
    edges
}
