//! Registers workflows.
//!
//! Invariant: a workflow is registered only if it and its children pass the static check.

use crate::{
    Engine, Flaw, Workflow, check, model::definition::child_workflows::descendants_of,
    runtime::adapter::typed_workflow::TypedWorkflow,
};
use std::{fmt, sync::Arc};

/// A workflow that could not be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidWorkflow {
    /// Its name.
    pub workflow: &'static str,
    /// Its flaws.
    pub flaws: Vec<Flaw>,
}

impl fmt::Display for InvalidWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workflow {} is unsound", self.workflow)?;
        self.flaws.iter().try_for_each(|flaw| write!(f, "; {flaw}"))
    }
}

impl std::error::Error for InvalidWorkflow {}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Registers a workflow and its child workflows.
    ///
    /// # Errors
    /// Returns [`InvalidWorkflow`] if the static check finds that it could strand an execution.
    pub fn with_workflow<W: Workflow<Platform = P>>(self) -> Result<Self, InvalidWorkflow> {
        let flaws = check::<W>();
        if !flaws.is_empty() {
            return Err(InvalidWorkflow { workflow: W::NAME, flaws });
        }
        for kind in descendants_of::<W>() {
            let flaws =
                if self.inner.workflows.contains_key(kind.workflow) { vec![] } else { (kind.check)() };
            if !flaws.is_empty() {
                return Err(InvalidWorkflow { workflow: kind.workflow, flaws });
            }
        }
        Ok(self.with_checked::<W>())
    }

    /// Registers a workflow that has already passed the static check.
    pub(crate) fn with_checked<W: Workflow<Platform = P>>(self) -> Self {
        self.change(|inner| {
            for kind in descendants_of::<W>() {
                inner.workflows.entry(kind.workflow).or_insert_with(kind.machine);
            }
            inner.workflows.insert(W::NAME, Arc::new(TypedWorkflow::<W>::new()));
        })
    }
}
