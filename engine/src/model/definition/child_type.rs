//! The type of a child workflow, with its Rust type erased.
//!
//! Held by a step that starts children; read by the check, the diagram and the registry.

use super::step::Authority;
use crate::{Flaw, model::erased_workflow::ErasedWorkflow};
use std::sync::Arc;

/// A child workflow, with its type erased.
pub(crate) struct ChildType<P> {
    pub(crate) workflow: &'static str,
    /// Returns the weakest authority that allows its start. The argument lists the workflows already visited.
    pub(crate) needs: fn(&mut Vec<&'static str>) -> Authority,
    pub(crate) check: fn() -> Vec<Flaw>,
    pub(crate) machine: fn() -> Arc<dyn ErasedWorkflow<P>>,
    pub(crate) children: fn() -> Vec<ChildType<P>>,
}

impl<P> ChildType<P> {
    /// Returns the label of a step that starts it, for diagrams.
    pub(crate) fn title(&self) -> String {
        format!("start {}", self.workflow)
    }

    /// Returns the weakest authority that allows its start.
    pub(crate) fn authority(&self) -> Authority {
        (self.needs)(&mut Vec::new())
    }
}
