//! The report of a verification.

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
    /// The number of runs.
    pub runs: usize,
    /// The number of runs by kind.
    pub by_kind: BTreeMap<String, usize>,
    /// The actions with faults.
    pub actions: BTreeSet<String>,
    /// Every edge of the workflow.
    pub edges: BTreeSet<Edge>,
    /// The edges that were taken.
    pub taken_edges: BTreeSet<Edge>,
    /// Every undo of the workflow, as `State: Undo`.
    pub undos: BTreeSet<String>,
    /// The undos that ran.
    pub undone: BTreeSet<String>,
    /// The violations, each with its action; empty for a sound workflow.
    pub violations: Vec<String>,
}

/// The edges and undos of children in all runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Family {
    /// The edges taken.
    pub(crate) taken: BTreeSet<Edge>,
    /// The undos run, as `State: Undo`.
    pub(crate) undone: BTreeSet<String>,
}

impl Report {
    /// Returns the report of the same runs for one child workflow.
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

    /// Returns the edges and undos that no run has taken.
    #[must_use]
    pub fn uncovered(&self) -> Vec<String> {
        let edges =
            self.edges.difference(&self.taken_edges).map(|e| format!("{} -> {} ({})", e.from, e.to, e.label));
        let undos = self.undos.difference(&self.undone).map(|undo| format!("undo {undo}"));
        edges.chain(undos).collect()
    }

    /// Returns true if the workflow is sound and every edge and undo is covered.
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
            Self::FailsForever => "fails forever",
        })
    }
}
