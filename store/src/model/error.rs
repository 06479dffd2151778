//! The errors of a store, named by situation.

use crate::{Epoch, ExecutionId, TaskId};

/// The origin of an error. It determines the answer to a caller, such as the HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request: the same request is refused again.
    Caller,
    /// A conflict: the caller must read again.
    Conflict,
    /// The store, the database or the server cannot do it now: the same request may succeed later.
    Unavailable,
    /// Stored data or the program is broken: an operator must act.
    Server,
}

/// A refused or failed call of a [`Store`](crate::Store).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The data that the commit was decided on has changed; load again and decide again.
    #[error("{what} has changed since it was read")]
    Conflict {
        /// The changed record or document.
        what: String,
    },
    /// Another open execution holds the guard.
    #[error("{guard} is held by the open execution {holder}")]
    Busy {
        /// The guard.
        guard: String,
        /// The execution that holds it.
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
        /// The size, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A name breaks the rules for keys.
    #[error("{what}")]
    Invalid {
        /// The name and the problem.
        what: String,
    },
    /// The disk is full; nothing was changed and no data is lost.
    #[error("the store's disk is full: {what}")]
    Full {
        /// The free and the needed space, and the folder.
        what: String,
    },
    /// The store cannot answer; whether a commit became durable is not known.
    #[error("the store is unavailable: {why}")]
    Unavailable {
        /// The cause and the remedy.
        why: String,
    },
    /// Stored data cannot be read.
    #[error("{what} is unreadable: {why}")]
    Corrupt {
        /// Which record, document or file.
        what: String,
        /// The problem.
        why: String,
    },
    /// The folder holds a store that must not be opened as it is.
    #[error("{why}")]
    Refused {
        /// Why not, and what to do.
        why: String,
    },
}

impl Error {
    /// Returns who caused the error, and so whether the same call may succeed later.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::TooLarge { .. } | Self::Invalid { .. } => Fault::Caller,
            Self::Conflict { .. } | Self::Busy { .. } => Fault::Conflict,
            // A lost lease is a matter of the server: its caller may try again.
            Self::Fenced { .. } | Self::Full { .. } | Self::Unavailable { .. } | Self::Refused { .. } => {
                Fault::Unavailable
            }
            Self::Corrupt { .. } => Fault::Server,
        }
    }

    /// Returns true if the same call may succeed later, by waiting or by deciding again.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self.fault() {
            Fault::Caller => false,
            Fault::Conflict | Fault::Unavailable | Fault::Server => true,
        }
    }
}
