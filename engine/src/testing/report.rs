//! What a verification found, in numbers and in sentences.

use super::scenario::Fault;
use crate::{Diagram, Edge};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The result of [`verify`](crate::testing::verify).
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The workflow.
    pub workflow: String,
    /// Runs in all.
    pub runs: usize,
    /// Runs by what was done to them.
    pub by_kind: BTreeMap<String, usize>,
    /// The actions that were made to go wrong.
    pub actions: BTreeSet<String>,
    /// Every way the workflow declares.
    pub edges: BTreeSet<Edge>,
    /// Those that some run has taken.
    pub taken_edges: BTreeSet<Edge>,
    /// Every undo the workflow declares, as `State: Undo`.
    pub undos: BTreeSet<String>,
    /// Those that some run has carried out.
    pub undone: BTreeSet<String>,
    /// What is wrong, each naming the action; empty when the workflow is sound.
    pub violations: Vec<String>,
}

/// What the executions of children did in all runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Family {
    /// The edges that they took.
    pub(crate) taken: BTreeSet<Edge>,
    /// The undos that they carried out, as `State: Undo`.
    pub(crate) undone: BTreeSet<String>,
}

impl Report {
    /// The report of the same runs about a child alone.
    pub(crate) fn of_child(&self, child: &Diagram, Family { taken, undone }: Family) -> Self {
        let is_own = |action: &&String| child.states.iter().any(|state| state.actions.contains(action));
        Self {
            runs: self.runs,
            by_kind: self.by_kind.clone(),
            actions: self.actions.iter().filter(is_own).cloned().collect(),
            violations: self.violations.clone(),
            taken_edges: taken,
            undone,
            ..Self::of(child)
        }
    }

    pub(crate) fn of(diagram: &Diagram) -> Self {
        let edge =
            |e: &crate::DiagramEdge| Edge { from: e.from.clone(), label: e.label.clone(), to: e.to.clone() };
        let undos =
            diagram.states.iter().flat_map(|s| s.undos.iter().map(move |undo| format!("{}: {undo}", s.name)));
        Self {
            workflow: diagram.workflow.clone(),
            edges: diagram.edges.iter().map(edge).collect(),
            undos: undos.collect(),
            ..Self::default()
        }
    }

    pub(crate) fn count(&mut self, kind: &str) {
        self.runs += 1;
        *self.by_kind.entry(kind.to_owned()).or_default() += 1;
    }

    /// Edges that no run has taken, and undos that no run has carried out.
    #[must_use]
    pub fn uncovered(&self) -> Vec<String> {
        let edges =
            self.edges.difference(&self.taken_edges).map(|e| format!("{} -> {} ({})", e.from, e.to, e.label));
        let undos = self.undos.difference(&self.undone).map(|undo| format!("undo {undo}"));
        edges.chain(undos).collect()
    }

    /// Sound, and every edge and undo covered.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violations.is_empty() && self.uncovered().is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "workflow {}: {} runs, {} actions made to go wrong",
            self.workflow,
            self.runs,
            self.actions.len()
        )?;
        for (kind, runs) in &self.by_kind {
            writeln!(f, "  {runs:>5} {kind}")?;
        }
        let taken = self.edges.intersection(&self.taken_edges).count();
        let undone = self.undos.intersection(&self.undone).count();
        writeln!(f, "  edges {taken} of {}, undos {undone} of {}", self.edges.len(), self.undos.len())?;
        for missing in self.uncovered() {
            writeln!(f, "  not covered: {missing}")?;
        }
        for complaint in &self.violations {
            writeln!(f, "  WRONG: {complaint}")?;
        }
        write!(f, "  {}", if self.passed() { "sound" } else { "NOT SOUND" })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailsBefore => "fails before",
            Self::FailsAfter => "fails after",
            Self::Twice => "runs twice",
            Self::LostBefore => "is lost before",
            Self::LostAfter => "is lost after",
            Self::FailsForever => "fails for ever",
        })
    }
}
