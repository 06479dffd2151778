//! What a call of the engine fails with.

use crate::{ActionError, Refusal};
use store::ExecutionId;

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
    /// Too many writers at once; nothing was changed.
    #[error("execution {0} changed too often while this call was being decided; try again")]
    Contended(ExecutionId),
}
