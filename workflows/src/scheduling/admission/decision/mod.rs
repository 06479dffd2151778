//! The decision on one workload: policy rules, evaluation in every dimension, and its changes.

pub(crate) mod aging;
pub(crate) mod decide;
pub(crate) mod evaluate;
mod permission;
pub(crate) mod rules;
