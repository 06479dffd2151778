//! The input of the planner: quotas, cohorts, nodes and running workloads, kept in a snapshot.

pub(crate) mod cohort_tree;
pub(crate) mod entities;
pub(crate) mod kind;
pub(crate) mod settings;
pub(crate) mod snapshot;
pub(crate) mod snapshot_error;
