//! What a call of the engine fails with.

use crate::{ActionError, Class, Refusal};
use store::{ExecutionId, Fault};

/// What a call of the [`Engine`](crate::Engine) can fail with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The execution does not take the event.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed or refused.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// There is no such execution.
    #[error("there is no execution {0}")]
    NotFound(ExecutionId),
    /// This engine does not know the workflow, or not in this schema; its executions are left alone.
    #[error(
        "this engine has no workflow {workflow} with schema {schema}; run a version of Tenure that has it"
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
        /// Which one.
        id: ExecutionId,
        /// What the decoder said.
        why: String,
    },
    /// The execution's content was destroyed with the record key of its tenant. What it was is still listed.
    #[error("execution {id} cannot be read any more: {what}")]
    Destroyed {
        /// Which one.
        id: ExecutionId,
        /// Whose key it was, and which.
        what: String,
    },
    /// The key of a request was used for a different one before.
    #[error(
        "key {key:?} was used for a different request, which became execution {execution}; use a new key"
    )]
    KeyReused {
        /// The key.
        key: String,
        /// What it started then.
        execution: ExecutionId,
    },
    /// Policy asks for a second person before this command takes effect.
    #[error("{command} needs a second person: propose it, and let another agree")]
    NeedsSecond {
        /// The command.
        command: &'static str,
    },
    /// There is no such proposal; it may have taken effect, or have been taken back.
    #[error("there is no proposal {id}")]
    NoProposal {
        /// What was asked for.
        id: String,
    },
    /// The workflow goes by the authority of a parent, and was asked for without one.
    #[error("workflow {workflow} runs only as a child of an execution that is authorised: start that one")]
    NeedsParent {
        /// The workflow's name.
        workflow: String,
    },
    /// A ledger action refused outside of any execution, as in a dry run.
    #[error(transparent)]
    Undecided(ActionError),
    /// A decision had no turn in time, or other servers kept writing; nothing was changed.
    #[error(
        "too many decisions on {what} at once: this one had no turn in time, and nothing was changed; repeat it later"
    )]
    Crowded {
        /// The document that the decisions change.
        what: String,
    },
    /// Too many writers at once; nothing was changed.
    #[error("execution {0} changed too often while this call was being decided; try again")]
    Contended(ExecutionId),
}

impl Error {
    /// Says at whom the error lies, and so whether the same call may succeed later.
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
