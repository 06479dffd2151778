//! The diagram of a workflow as data, and as Mermaid.

use serde::Serialize;
use std::fmt::Write as _;

/// A workflow as a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagram {
    /// The workflow's name.
    pub workflow: String,
    /// Its schema.
    pub schema: u32,
    /// The initial state.
    pub initial: String,
    /// Its states.
    pub states: Vec<DiagramState>,
    /// The edges, including those to an end.
    pub edges: Vec<DiagramEdge>,
}

/// One edge of a [`Diagram`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiagramEdge {
    /// The state it leaves.
    pub from: String,
    /// The label, as in [`Edge::label`](crate::Edge::label).
    pub label: String,
    /// The label for people, with actions, roles and limits.
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
    /// The names of its actions.
    pub actions: Vec<String>,
    /// The names of their undos.
    pub undos: Vec<String>,
    /// True if nothing from here on can be undone.
    pub forward_only: bool,
}

impl Diagram {
    /// Renders the diagram as a Mermaid `stateDiagram-v2`. The state `current` is filled.
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
