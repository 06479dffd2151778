//! What opening a store found, and what it did about it.

use crate::Sequence;
use std::fmt;

/// The account of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The last commit of the store.
    pub sequence: Sequence,
    /// Commits taken over from the journal into the index.
    pub replayed: u64,
    /// Why the index was made anew from snapshot and journal, if it was.
    pub rebuilt_index: Option<String>,
    /// Bytes at the journal's end that were begun and never acknowledged, and were cut off.
    pub cut_tail_bytes: u64,
    /// What was damaged and could be made good from what else there was; a fresh snapshot was written at once.
    pub repaired: Vec<String>,
    /// Records and tasks that are there and cannot be decoded.
    pub unreadable: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "opened at commit {}; {} commits replayed", self.sequence.0, self.replayed)?;
        if let Some(why) = &self.rebuilt_index {
            write!(f, "\nthe index was made anew: {why}")?;
        }
        if self.cut_tail_bytes > 0 {
            write!(
                f,
                "\n{} bytes at the journal's end were never acknowledged and were cut off",
                self.cut_tail_bytes
            )?;
        }
        for repaired in &self.repaired {
            write!(f, "\nmade good: {repaired}")?;
        }
        if self.unreadable > 0 {
            write!(
                f,
                "\n{} records or tasks cannot be read; `tenure store check` names them",
                self.unreadable
            )?;
        }
        Ok(())
    }
}
