//! Definitions of workflows, steps and actions, and the facts that follow from them without an execution.
//!
//! Used by the builders, the check, the diagram and the core. Invariant: a step is a pure function of the data and the
//! state.

pub(crate) mod action;
pub(crate) mod child;
pub(crate) mod child_type;
pub(crate) mod child_workflows;
pub(crate) mod diagram;
pub(crate) mod erased_action;
pub(crate) mod flaw;
pub(crate) mod graph;
pub(crate) mod made_repair;
pub(crate) mod step;
pub(crate) mod workflow;
