//! What is wrong with the settings of a target.

use std::fmt::Display;

/// What is wrong with a target: the field, why, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct TargetError {
    /// The path of the field, such as `clusters.eu-1.kubernetes.context`.
    pub field: String,
    /// What is wrong with it, and what to write.
    pub why: String,
}

impl TargetError {
    /// That this field is wrong.
    pub fn new(field: &str, why: impl Display) -> Self {
        Self { field: field.to_owned(), why: why.to_string() }
    }

    /// The same, of a field within another.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        let field = if self.field.is_empty() { outer.to_owned() } else { format!("{outer}.{}", self.field) };
        Self { field, ..self }
    }
}
