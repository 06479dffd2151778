//! Why a text is no filter, and the known word that comes closest.

use std::fmt;

/// The most conditions of a filter, each value of a list counted.
pub const CONDITIONS_LIMIT: usize = 64;

/// Why a text is no filter: where, what was expected there, and what may have been meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The character at which it goes wrong, from 1.
    pub at: usize,
    /// What is wrong there.
    pub problem: String,
    /// What would be right there.
    pub expected: String,
    /// The known word that comes closest.
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

/// The one of `known` that `word` is closest to, if it is close to any.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let distance = |known: &'a str| (differences(word, known), known);
    let (least, known) = known.into_iter().map(distance).min()?;
    (least <= 1 + word.chars().count() / 4).then(|| known.to_owned())
}

/// How many letters have to be put in, taken out or changed to make `one` of `other`.
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
