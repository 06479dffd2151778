//! Changes that a snapshot rejects.

/// The change names an unknown or duplicate item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The cohort does not exist. Add cohorts before their members.
    #[error("cohort {0} does not exist; add it first")]
    Cohort(String),
    /// The workspace does not exist.
    #[error("workspace {0} does not exist; add it first")]
    Workspace(String),
    /// The workload does not exist.
    #[error("workload {0} does not exist")]
    Workload(String),
    /// The item already exists.
    #[error("{0} already exists")]
    Twice(String),
}
