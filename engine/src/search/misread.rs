//! Errors of filters, with suggestions.

use std::fmt;

/// The most conditions of a filter; each value of a list counts.
pub const CONDITIONS_LIMIT: usize = 64;

/// An error in a filter: its position, the expected input, and a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The position of the error, in characters from 1.
    pub at: usize,
    /// The problem.
    pub problem: String,
    /// The expected input.
    pub expected: String,
    /// The most similar known word.
    pub nearest: Option<String>,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter, character {}: {}", self.at, self.problem)?;
        if let Some(nearest) = &self.nearest {
            write!(f, " (did you mean {nearest}?)")?;
        }
        write!(f, "; expected {}", self.expected)
    }
}

impl std::error::Error for FilterError {}

/// Returns the word in `known` that is most similar to `word`, if one is similar enough.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let distance = |known: &'a str| (differences(word, known), known);
    let (least, known) = known.into_iter().map(distance).min()?;
    (least <= 1 + word.chars().count() / 4).then(|| known.to_owned())
}

/// Returns how many letters must be inserted, removed or replaced to turn `one` into `other`.
fn differences(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&other) {
            let changed = diagonal + usize::from(a != *b);
            diagonal = *cell;
            left = changed.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
