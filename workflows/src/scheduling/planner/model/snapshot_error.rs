//! Changes that a snapshot refuses.

/// A change that names what the snapshot does not have, or has already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// No such cohort; cohorts are added before what is in them.
    #[error("there is no cohort {0}; add it first")]
    Cohort(String),
    /// No such workspace.
    #[error("there is no workspace {0}; add it first")]
    Workspace(String),
    /// No such workload.
    #[error("there is no workload {0}")]
    Workload(String),
    /// It is there already.
    #[error("{0} is there already")]
    Twice(String),
}
