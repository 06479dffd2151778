//! The report of opening a store: its findings and repairs.

use crate::Sequence;
use std::fmt;

/// The report of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The last commit of the store.
    pub sequence: Sequence,
    /// Commits replayed from the journal into the index.
    pub replayed: u64,
    /// Why the index was rebuilt from the snapshot and the journal, if it was.
    pub rebuilt_index: Option<String>,
    /// Bytes of the journal's end that were never acknowledged, and were cut off.
    pub cut_tail_bytes: u64,
    /// The damage that was repaired from other parts; a fresh snapshot was written at once.
    pub repaired: Vec<String>,
    /// Records and tasks that cannot be decoded.
    pub unreadable: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "opened at commit {}; {} commits replayed", self.sequence.0, self.replayed)?;
        if let Some(why) = &self.rebuilt_index {
            write!(f, "\nthe index was rebuilt: {why}")?;
        }
        if self.cut_tail_bytes > 0 {
            write!(
                f,
                "\n{} bytes at the end of the journal were not acknowledged, and were cut off",
                self.cut_tail_bytes
            )?;
        }
        for repaired in &self.repaired {
            write!(f, "\nrepaired: {repaired}")?;
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
