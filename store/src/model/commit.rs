//! A commit: the one write of a store, and its receipt.

use crate::{Entry, Epoch, ExecutionId, Put, Read, Record, Revision, Sequence, Task, TaskId};

/// A change, applied completely or not at all. Empty parts change nothing.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// The next version of the execution.
    pub record: Option<Write>,
    /// Documents that must still be as they were read.
    pub reads: Vec<Read>,
    /// Documents to write or delete.
    pub documents: Vec<Put>,
    /// History to append.
    pub journal: Vec<Entry>,
    /// Work to add, or to move to another time.
    pub schedule: Vec<Task>,
    /// Work that is no longer needed; names that do not exist are ignored.
    pub retire: Vec<TaskId>,
    /// The leased work that this commit concludes.
    pub settle: Option<Settle>,
    /// A finished execution to erase, or a part of its history.
    pub erase: Option<Erase>,
}

/// The removal of a finished execution: its oldest history entries, and with the last of them its record.
///
/// Long histories need several commits. The record is removed only with the last entry, so that the next run finds an
/// interrupted erasure. Documents and tasks are not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erase {
    /// The execution. A commit that also writes its record or adds to its history is invalid.
    pub execution: ExecutionId,
    /// The version of its record.
    pub expected: Revision,
    /// Entries after this commit are not removed, and then the record stays too.
    pub upto: Sequence,
    /// The most history entries that this commit removes; at most [`ERASE_LIMIT`](crate::ERASE_LIMIT).
    pub entries: usize,
}

/// A record and the version it must follow.
#[derive(Clone, Debug)]
pub struct Write {
    /// The content; its `revision` is ignored.
    pub record: Record,
    /// The version it replaces, or `None` if the id must be new.
    pub expected: Option<Revision>,
}

/// The end of a leased task, fenced by the lease's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The task, removed by the commit unless the same commit schedules it again (then without a lease).
    pub task: TaskId,
    /// The epoch under which the caller holds it.
    pub epoch: Epoch,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its place in the store's history; also the version of each document it wrote.
    pub sequence: Sequence,
    /// The record's new version, if it wrote one.
    pub revision: Option<Revision>,
    /// True if it removed a record.
    pub erased: bool,
}
