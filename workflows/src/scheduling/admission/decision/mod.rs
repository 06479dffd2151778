//! The decision on one workload: the rules of policy, the evaluation in every dimension, and what it changes.

pub(crate) mod aging;
pub(crate) mod decide;
pub(crate) mod evaluate;
mod permission;
pub(crate) mod rules;
