//! The errors of engine calls.

use crate::{ActionError, Class, Refusal};
use store::{ExecutionId, Fault};

/// The errors of calls to the [`Engine`](crate::Engine).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The execution does not accept the event.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed or refused.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// There is no such execution.
    #[error("there is no execution {0}")]
    NotFound(ExecutionId),
    /// This engine does not have the workflow in this schema, and does not change its executions.
    #[error(
        "this server has no workflow {workflow} with schema {schema}; run a version of Tenure that has it"
    )]
    NoWorker {
        /// The workflow's name.
        workflow: String,
        /// The schema of the stored record.
        schema: u32,
    },
    /// The execution's body cannot be decoded.
    #[error("execution {id} is unreadable: {why}")]
    Unreadable {
        /// The execution.
        id: ExecutionId,
        /// The error of the decoder.
        why: String,
    },
    /// The execution's content was destroyed with the record key of its tenant. The execution stays listed.
    #[error("execution {id} cannot be read any more: {what}")]
    Destroyed {
        /// The execution.
        id: ExecutionId,
        /// The destroyed key and its tenant.
        what: String,
    },
    /// The idempotency key was used for a different request before.
    #[error(
        "key {key:?} was used for a different request, which became execution {execution}; use a new key"
    )]
    KeyReused {
        /// The key.
        key: String,
        /// The execution that the first request started.
        execution: ExecutionId,
    },
    /// Policy requires a second person before this command takes effect.
    #[error("{command} needs a second person: propose it, and have another person confirm it")]
    NeedsSecond {
        /// The command.
        command: &'static str,
    },
    /// The proposal does not exist: it may have taken effect or have been withdrawn.
    #[error("there is no proposal {id}")]
    NoProposal {
        /// The requested id.
        id: String,
    },
    /// The workflow runs only on the authority of a parent.
    #[error("workflow {workflow} runs only as a child of an authorised execution: start the parent")]
    NeedsParent {
        /// The workflow's name.
        workflow: String,
    },
    /// A ledger action failed outside of an execution, as in a dry run.
    #[error(transparent)]
    Undecided(ActionError),
    /// A decision had to wait too long for its turn, or other servers kept writing. Nothing was changed.
    #[error("too many concurrent decisions on {what}: nothing was changed; repeat the call later")]
    Crowded {
        /// The document that the decisions change.
        what: String,
    },
    /// Too many concurrent writers. Nothing was changed.
    #[error("execution {0} changed too often during this call; try again")]
    Contended(ExecutionId),
}

impl Error {
    /// Returns who caused the error, and so whether the same call may succeed later.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Store(error) => error.fault(),
            Self::Undecided(error) => match error.class {
                Class::Permanent => Fault::Caller,
                Class::Transient | Class::Unknown | Class::Pending { .. } => Fault::Unavailable,
            },
            Self::Crowded { .. } | Self::Contended(_) => Fault::Unavailable,
            Self::Unreadable { .. } => Fault::Server,
            Self::Refused(_) | Self::NoWorker { .. } => Fault::Conflict,
            Self::NotFound(_)
            | Self::Destroyed { .. }
            | Self::KeyReused { .. }
            | Self::NeedsSecond { .. }
            | Self::NoProposal { .. }
            | Self::NeedsParent { .. } => Fault::Caller,
        }
    }
}
