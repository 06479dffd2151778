//! The builders of steps, the static check, and the diagram.
//!
//! Called by authors of workflows, and by the engine when a workflow is registered. Invariant: a workflow that fails
//! the check cannot be registered.

pub(crate) mod act;
pub(crate) mod acting;
pub(crate) mod approval;
pub(crate) mod check;
pub(crate) mod choose;
pub(crate) mod diagram;
pub(crate) mod wait;
