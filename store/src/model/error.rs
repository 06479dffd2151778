//! What can go wrong with a store, named by situation.

use crate::{Epoch, ExecutionId, TaskId};

/// A refused or failed call of a [`Store`](crate::Store).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What the commit was decided on has changed since; load again and decide again.
    #[error("{what} has changed since it was read")]
    Conflict {
        /// The record or document that moved on.
        what: String,
    },
    /// Another open execution holds the guard.
    #[error("{guard} is held by the open execution {holder}")]
    Busy {
        /// The guard asked for.
        guard: String,
        /// Who holds it.
        holder: ExecutionId,
    },
    /// The caller's lease has lapsed or passed to another holder; its result must be dropped.
    #[error("task {task} is not held under epoch {}", epoch.0)]
    Fenced {
        /// The task in question.
        task: TaskId,
        /// The late epoch.
        epoch: Epoch,
    },
    /// A part of the commit exceeds a limit.
    #[error("{what} has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Which part.
        what: String,
        /// Its size, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A name breaks the rules for keys.
    #[error("{what}")]
    Invalid {
        /// What is wrong with which name.
        what: String,
    },
    /// There is no room on the disk; nothing was changed and nothing is lost.
    #[error("the store's disk is full: {what}")]
    Full {
        /// How much is free, how much is wanted, and where.
        what: String,
    },
    /// The store cannot answer; whether a commit became durable is not known.
    #[error("the store is unavailable: {why}")]
    Unavailable {
        /// What happened and what to do.
        why: String,
    },
    /// Something stored cannot be read as what it should be.
    #[error("{what} is unreadable: {why}")]
    Corrupt {
        /// Which record, document or file.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The folder holds a store that must not be opened as it is.
    #[error("{why}")]
    Refused {
        /// Why not, and what to do.
        why: String,
    },
}
