//! What follows from the state and the data of an execution, kept for as long as neither changes.
//!
//! A step over thousands of nodes is built once for all its slots, not for each of their results. Pure, a part of
//! [`transition`](crate::transition()). Invariant: a value is used only with the state and the data that it was made from.

use super::encoded::Encoded;
use crate::{Execution, Plan, PlanDigest, Step, Workflow};
use std::sync::Arc;

/// The step, the plan and the JSON of an execution, as far as they are known.
pub(crate) struct KnownStep<W: Workflow> {
    step: Option<Arc<Step<W>>>,
    plan: Option<Arc<(Plan, PlanDigest)>>,
    /// What of the execution is encoded.
    pub(crate) encoded: Encoded,
}

impl<W: Workflow> Default for KnownStep<W> {
    fn default() -> Self {
        Self { step: None, plan: None, encoded: Encoded::default() }
    }
}

impl<W: Workflow> KnownStep<W> {
    /// The step of `execution`, built unless it is known.
    pub(crate) fn step(&mut self, execution: &Execution<W>) -> Arc<Step<W>> {
        self.step.get_or_insert_with(|| Arc::new(execution.data.step(execution.state))).clone()
    }

    /// The plan of `execution` and its digest, made unless they are known.
    pub(crate) fn plan(&mut self, execution: &Execution<W>) -> Arc<(Plan, PlanDigest)> {
        self.plan.get_or_insert_with(|| Arc::new((execution.data.plan(), execution.digest()))).clone()
    }

    /// Forgets all: the state or the data changes.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
