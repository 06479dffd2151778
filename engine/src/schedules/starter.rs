//! Starts the executions of schedules.

use crate::{BoxFuture, Class, Engine, Error, Request, Started, runtime::commit::ExtraWrites};
use store::Fault;

/// Starts what schedules are for. [`Engine`] itself takes the data as that of the workflow.
pub trait Starter: Send + Sync {
    /// Starts an execution of `workflow` from `data` with `request`, which must reach [`Engine::start`] as it is: its commit
    /// says that the occurrence was started. `by` is who set the schedule.
    fn start<'a>(
        &'a self,
        workflow: &'a str,
        data: &'a serde_json::Value,
        by: &'a str,
        request: Request,
    ) -> BoxFuture<'a, Result<Started, StartFailure>>;
}

/// Why an occurrence was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// Another execution stands in the way, in words: the overlap policy says what follows.
    Busy(String),
    /// Something that was read has changed: it is decided again.
    Changed,
    /// It cannot be started as it is, in words: a failure.
    Refused(String),
    /// It cannot be started now, in words: it is tried again at the next look.
    Later(String),
}

impl From<Error> for StartFailure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Store(store::Error::Busy { .. }) => Self::Busy(error.to_string()),
            Error::Store(stored) => match stored.fault() {
                Fault::Conflict => Self::Changed,
                Fault::Caller => Self::Refused(error.to_string()),
                Fault::Unavailable | Fault::Server => Self::Later(error.to_string()),
            },
            Error::Undecided(undecided) => match undecided.class {
                Class::Permanent => Self::Refused(error.to_string()),
                Class::Transient | Class::Unknown | Class::Pending { .. } => Self::Later(error.to_string()),
            },
            Error::NoWorker { .. } | Error::NotFound(_) | Error::Contended(_) | Error::Crowded { .. } => {
                Self::Later(error.to_string())
            }
            Error::Refused(_)
            | Error::Unreadable { .. }
            | Error::Destroyed { .. }
            | Error::KeyReused { .. }
            | Error::NeedsSecond { .. }
            | Error::NoProposal { .. }
            | Error::NeedsParent { .. } => Self::Refused(error.to_string()),
        }
    }
}

impl<P: Send + Sync + 'static> Starter for Engine<P> {
    fn start<'a>(
        &'a self,
        workflow: &'a str,
        data: &'a serde_json::Value,
        _: &'a str,
        request: Request,
    ) -> BoxFuture<'a, Result<Started, StartFailure>> {
        Box::pin(async move { Ok(self.start_named(workflow, data.clone(), request).await?) })
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Starts an execution of the workflow named, from data of its own shape.
    ///
    /// # Errors
    /// As [`Engine::start`]; [`Error::NoWorker`] when it is not registered, [`Error::Unreadable`] when the data is not its.
    pub async fn start_named(
        &self,
        workflow: &str,
        data: serde_json::Value,
        request: Request,
    ) -> Result<Started, Error> {
        let schema = self.machine(workflow, 0)?.schema();
        self.begin(workflow, schema, data, request, None, ExtraWrites::default()).await
    }
}
