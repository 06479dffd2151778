//! Invalid settings of a target.

use std::fmt::Display;

/// An invalid setting: the field, the problem and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct TargetError {
    /// The path of the field, such as `clusters.eu-1.kubernetes.context`.
    pub field: String,
    /// The problem and the fix.
    pub why: String,
}

impl TargetError {
    /// Creates an error for a field.
    pub fn new(field: &str, why: impl Display) -> Self {
        Self { field: field.to_owned(), why: why.to_string() }
    }

    /// Returns the error with `outer` as prefix of the field's path.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        let field = if self.field.is_empty() { outer.to_owned() } else { format!("{outer}.{}", self.field) };
        Self { field, ..self }
    }
}
