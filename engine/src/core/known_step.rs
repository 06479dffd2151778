//! Values derived from the state and the data of an execution, cached until one of them changes.
//!
//! A step over thousands of nodes is built once for all its slots, not for each of their results. Pure, a part of
//! [`transition`](crate::transition()). Invariant: a value is used only with the state and the data that it is derived from.

use super::encoded::Encoded;
use crate::{Execution, Plan, PlanDigest, Step, Workflow};
use std::sync::Arc;

/// The cached step, plan and JSON of an execution.
pub(crate) struct KnownStep<W: Workflow> {
    step: Option<Arc<Step<W>>>,
    plan: Option<Arc<(Plan, PlanDigest)>>,
    /// The encoded parts of the execution.
    pub(crate) encoded: Encoded,
}

impl<W: Workflow> Default for KnownStep<W> {
    fn default() -> Self {
        Self { step: None, plan: None, encoded: Encoded::default() }
    }
}

impl<W: Workflow> KnownStep<W> {
    /// Returns the step of `execution`, and builds it if it is not cached.
    pub(crate) fn step(&mut self, execution: &Execution<W>) -> Arc<Step<W>> {
        self.step.get_or_insert_with(|| Arc::new(execution.data.step(execution.state))).clone()
    }

    /// Returns the plan of `execution` and its digest, and computes them if they are not cached.
    pub(crate) fn plan(&mut self, execution: &Execution<W>) -> Arc<(Plan, PlanDigest)> {
        self.plan.get_or_insert_with(|| Arc::new((execution.data.plan(), execution.digest()))).clone()
    }

    /// Clears the cache, because the state or the data changes.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
