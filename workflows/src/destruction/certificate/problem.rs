//! Something wrong with a certificate.

use serde::{Deserialize, Serialize};

/// Something wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The field, as `assets[3].serial`, or the part of the envelope.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Problem {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}
