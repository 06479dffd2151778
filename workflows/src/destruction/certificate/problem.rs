//! A problem of a certificate.

use serde::{Deserialize, Serialize};

/// A problem of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The field, such as `assets[3].serial`, or the part of the envelope.
    pub field: String,
    /// The description of the problem.
    pub problem: String,
}

impl Problem {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}
