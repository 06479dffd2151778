//! The picture of a workflow, drawn from the steps that run: Mermaid for people, JSON for the console.

use crate::{Commitment, Edge, Step, Workflow, check::Graph};
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
    pub edges: Vec<Edge>,
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
    let mut edges: Vec<Edge> = Vec::new();
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
            for branch in &act.branches {
                add(&mut into.actions, branch.deed.name);
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
/// agree, the way is drawn once, with the label of the first.
fn merged_edges<W: Workflow>(graph: &Graph<W>, state: W::State, drawn: &DiagramState) -> Vec<Edge> {
    let from = drawn.name.clone();
    let mut edges: Vec<Edge> = Vec::new();
    for step in graph.steps(state) {
        let done = match step {
            Step::Act(act) => Some(act.next),
            Step::End(_) | Step::Approval(_) | Step::Wait(_) | Step::Choose(_) => None,
        };
        for (place, way) in step.ways().into_iter().enumerate() {
            let to: &str = way.to.into();
            let is_done = place == 0 && done == Some(way.to);
            let label =
                if is_done && !drawn.actions.is_empty() { drawn.actions.join(", ") } else { way.label };
            let same = |edge: &Edge| edge.to == to && (edge.label == label || drawn.kind == "approval");
            if !edges.iter().any(same) {
                edges.push(Edge { from: from.clone(), label, to: to.into() });
            }
        }
        if let Step::End(outcome) = step {
            edges.push(Edge {
                from: from.clone(),
                label: Into::<&str>::into(*outcome).into(),
                to: "[*]".into(),
            });
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
            let _ = writeln!(out, "    {} --> {} : {}", edge.from, edge.to, edge.label);
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
