//! The position of a batch among all batches of one source.

use serde::{Deserialize, Serialize};

/// The term of a cluster's observer, from the store: one more for each new holder of the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

/// The position of a batch of one source. Marks of two sources are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The term of the observer.
    pub term: Term,
    /// The list to which it belongs: one more for each list within the term.
    pub round: u64,
    /// The number within the round, from 0.
    pub seq: u64,
}

/// The reason why a batch changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another observer took over.
    #[error("the batch has term {}, but the source is at term {}", .batch.0, .current.0)]
    OldTerm {
        /// The term of the batch.
        batch: Term,
        /// The latest term.
        current: Term,
    },
    /// A newer list has begun.
    #[error("the batch has round {batch}, but the source is at round {current}")]
    OldRound {
        /// The round of the batch.
        batch: u64,
        /// The latest round.
        current: u64,
    },
    /// Batches are missing. The source must list again.
    #[error("the batch has number {batch}, but number {expected} is missing; list again")]
    Gap {
        /// The number of the batch.
        batch: u64,
        /// The missing number.
        expected: u64,
    },
    /// A new term or round does not begin with a list.
    #[error("a new term or round must begin with Init as number 0")]
    NoList,
    /// `Init` is not the first event of a round, `InitApply` or `InitDone` is not part of a list, or an event follows before the list is complete.
    #[error("the events are in an impossible order; list again")]
    Malformed,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is the next one.
    Next,
    /// It was already applied.
    Repeated,
}

impl Mark {
    /// Decides on a batch with this mark. `last` is the mark of the batch that was applied last, and `lists` is true if the batch begins with `Init`.
    pub(super) fn turn(self, last: Option<Self>, lists: bool) -> Result<Turn, Refusal> {
        let begins = || if lists && self.seq == 0 { Ok(Turn::Next) } else { Err(Refusal::NoList) };
        let Some(last) = last else { return begins() };
        if self.term != last.term {
            let (batch, current) = (self.term, last.term);
            return if batch < current { Err(Refusal::OldTerm { batch, current }) } else { begins() };
        }
        if self.round != last.round {
            let (batch, current) = (self.round, last.round);
            return if batch < current { Err(Refusal::OldRound { batch, current }) } else { begins() };
        }
        let expected = last.seq.saturating_add(1);
        if self.seq < expected {
            Ok(Turn::Repeated)
        } else if self.seq > expected {
            Err(Refusal::Gap { batch: self.seq, expected })
        } else {
            Ok(Turn::Next)
        }
    }
}
