//! What can go wrong with a store, named by situation.

use crate::{Epoch, ExecutionId, TaskId};

/// At whom an error lies. Every answer to a caller follows from it, such as the status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request itself: the same request is refused again.
    Caller,
    /// Something has changed since it was read, or another holds it: the caller has to look again.
    Conflict,
    /// The store, the database or the server cannot do it now: the same request may succeed later.
    Unavailable,
    /// Something stored is broken, or this program is: an operator has to look.
    Server,
}

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

impl Error {
    /// Says at whom the error lies, and so whether the same call may succeed later.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::TooLarge { .. } | Self::Invalid { .. } => Fault::Caller,
            Self::Conflict { .. } | Self::Busy { .. } => Fault::Conflict,
            // A lease that has passed on is the server's affair: whoever called it may call again.
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
