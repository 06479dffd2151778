//! Starts the executions of schedules.

use crate::{BoxFuture, Class, Engine, Error, Request, Started, runtime::commit::ExtraWrites};
use store::Fault;

/// Starts the executions of schedules. [`Engine`] itself passes the data to the workflow unchanged.
pub trait Starter: Send + Sync {
    /// Starts an execution of `workflow` from `data`. `request` must be passed unchanged to [`Engine::start`]: its
    /// commit records the start of the occurrence. `by` is the author of the schedule.
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
    /// Another execution blocks it; the overlap policy decides.
    Busy(String),
    /// A document that was read has changed: decide again.
    Changed,
    /// It can never be started: a failure.
    Refused(String),
    /// It cannot be started now: try again in the next run.
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
    /// Starts an execution of the named workflow from its data.
    ///
    /// # Errors
    /// Same as [`Engine::start`]; [`Error::NoWorker`] if it is not registered, [`Error::Unreadable`] if the data is
    /// invalid.
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
