//! A problem of a document: position, field and remedy.

use serde::Serialize;
use std::fmt;

/// A position in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Spot {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The position; `None` for documents without lines (JSON).
    pub at: Option<Spot>,
    /// The field, such as `tenant.tier`; empty for the document itself.
    pub field: String,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

impl Finding {
    /// Creates a finding at a position of the document, if it has lines.
    ///
    /// Shortens quotes of the document, so that the answer is not longer than the request.
    pub fn new(at: Option<Spot>, field: &str, mut problem: String, remedy: String) -> Self {
        if problem.len() > LONGEST_PROBLEM {
            problem.truncate(problem.floor_char_boundary(LONGEST_PROBLEM));
            problem.push('…');
        }
        Self { at, field: field.to_owned(), problem, remedy }
    }
}

/// The longest problem text that is not shortened, in bytes.
const LONGEST_PROBLEM: usize = 512;

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Spot { line, column }) = self.at {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field)?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

/// A document that cannot be used, with its findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Invalid {
    /// At least one, by position.
    pub findings: Vec<Finding>,
}

impl Invalid {
    /// The most findings in one answer.
    pub const MOST: usize = 100;

    /// Keeps the first of these findings and counts the rest.
    pub fn of(mut findings: Vec<Finding>, untold: usize) -> Self {
        let untold = untold + findings.len().saturating_sub(Self::MOST);
        findings.truncate(Self::MOST);
        if untold > 0 {
            let problem = format!("{untold} more findings are not shown");
            findings.push(Finding::new(None, "", problem, "fix the findings above first".into()));
        }
        Self { findings }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.findings.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            finding.fmt(f)?;
        }
        Ok(())
    }
}

impl From<Finding> for Invalid {
    fn from(finding: Finding) -> Self {
        Self { findings: vec![finding] }
    }
}
