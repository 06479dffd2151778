//! Changes that a snapshot rejects.

/// The change names an unknown or duplicate item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The cohort does not exist. Add cohorts before their members.
    #[error("there is no cohort {0}; add it first")]
    Cohort(String),
    /// The workspace does not exist.
    #[error("there is no workspace {0}; add it first")]
    Workspace(String),
    /// The workload does not exist.
    #[error("there is no workload {0}")]
    Workload(String),
    /// The item already exists.
    #[error("{0} is there already")]
    Twice(String),
}
