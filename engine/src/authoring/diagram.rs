//! The picture of a workflow, drawn from the steps that run: Mermaid for people, JSON for the console.

use crate::{Commitment, Step, Workflow, authoring::check::Graph, model::step::DONE};
use serde::Serialize;
use std::fmt::Write as _;
use strum::VariantArray;

/// A workflow as a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagram {
    /// The workflow's name.
    pub workflow: String,
    /// Its schema.
    pub schema: u32,
    /// Where it begins.
    pub initial: String,
    /// Its states.
    pub states: Vec<DiagramState>,
    /// The ways between them, ends included.
    pub edges: Vec<DiagramEdge>,
}

/// One way of a [`Diagram`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiagramEdge {
    /// The state it leaves.
    pub from: String,
    /// What makes it be taken, as [`Edge::label`](crate::Edge::label).
    pub label: String,
    /// The same for people, with actions, roles and limits.
    pub text: String,
    /// The state it leads to, or `[*]` at an end.
    pub to: String,
}

/// One state of a [`Diagram`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiagramState {
    /// Its name.
    pub name: String,
    /// `act`, `approval`, `wait`, `choose` or `end`.
    pub kind: &'static str,
    /// What it does.
    pub actions: Vec<String>,
    /// How that is undone.
    pub undos: Vec<String>,
    /// Nothing after it can be undone.
    pub forward_only: bool,
}

/// The picture of `W`.
#[must_use]
pub fn diagram<W: Workflow>() -> Diagram {
    let examples = W::examples();
    let graph = Graph::<W>::of(&examples);
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
            if let Some(kind) = &act.kin {
                add(&mut into.actions, &kind.title());
            }
            for branch in &act.branches {
                if act.kin.is_none() {
                    add(&mut into.actions, branch.deed.name);
                }
                if let Some(undo) = &branch.undo {
                    add(&mut into.undos, undo.deed.name);
                }
            }
        }
        Step::Approval(_) => into.kind = "approval",
        Step::Wait(_) => into.kind = "wait",
        Step::Choose(_) => into.kind = "choose",
        Step::End(_) => into.kind = "end",
    }
}

/// The ways out of a state over all examples. Where examples differ only in how much there is to do, or in who has to
/// agree, the way is drawn once, with the text of the first; that of success names every action.
fn merged_edges<W: Workflow>(graph: &Graph<W>, state: W::State, drawn: &DiagramState) -> Vec<DiagramEdge> {
    let mut edges: Vec<DiagramEdge> = Vec::new();
    for step in graph.steps(state) {
        for way in step.ways(state) {
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

impl Diagram {
    /// The picture as Mermaid's `stateDiagram-v2`; `current` is drawn filled.
    #[must_use]
    pub fn mermaid(&self, current: Option<&str>) -> String {
        let mut out = format!("stateDiagram-v2\n    [*] --> {}\n", self.initial);
        for edge in &self.edges {
            let _ = writeln!(out, "    {} --> {} : {}", edge.from, edge.to, edge.text);
        }
        for state in &self.states {
            if state.forward_only {
                let _ = writeln!(out, "    note right of {} : no way back from here", state.name);
            }
            if !state.undos.is_empty() {
                let _ = writeln!(out, "    note right of {} : undo {}", state.name, state.undos.join(", "));
            }
        }
        if let Some(current) = current {
            let _ =
                writeln!(out, "    classDef current fill:#2563eb,color:#fff\n    class {current} current");
        }
        out
    }
}
