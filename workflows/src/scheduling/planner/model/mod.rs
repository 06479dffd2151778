//! The input of the planner: a snapshot of quotas, cohorts, nodes and running workloads.

pub(crate) mod cohort_tree;
pub(crate) mod entities;
pub(crate) mod kind;
pub(crate) mod settings;
pub(crate) mod snapshot;
pub(crate) mod snapshot_error;
