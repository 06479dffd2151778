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
