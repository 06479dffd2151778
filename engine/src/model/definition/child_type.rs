//! The type of a child workflow, with its Rust type erased.
//!
//! Held by a step that starts children; read by the check, the diagram and the registry.

use super::step::Authority;
use crate::{Flaw, model::erased_workflow::ErasedWorkflow};
use std::sync::Arc;

/// A workflow that another one starts, with its type forgotten.
pub(crate) struct ChildType<P> {
    pub(crate) workflow: &'static str,
    /// The weakest authority on which it may be started; those named have been asked before.
    pub(crate) needs: fn(&mut Vec<&'static str>) -> Authority,
    pub(crate) check: fn() -> Vec<Flaw>,
    pub(crate) machine: fn() -> Arc<dyn ErasedWorkflow<P>>,
    pub(crate) children: fn() -> Vec<ChildType<P>>,
}

impl<P> ChildType<P> {
    /// What a step that starts it does, as diagrams say it.
    pub(crate) fn title(&self) -> String {
        format!("start {}", self.workflow)
    }

    /// The weakest authority on which it may be started.
    pub(crate) fn authority(&self) -> Authority {
        (self.needs)(&mut Vec::new())
    }
}
