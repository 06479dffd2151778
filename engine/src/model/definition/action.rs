//! Actions of a step: an [`Action`] on an external system, or a [`LedgerAction`] on documents of the store.
//!
//! An [`Action`] runs at least once, with the same idempotency key on every attempt. A [`LedgerAction`] decides
//! purely, and its writes are part of the commit that settles the step: exactly once. Both are plain structs, so that
//! their arguments can be audited, shown in a plan, and stored with the trail.

use crate::{ActionError, Undecided, View};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc, time::Duration};
use store::{Epoch, ExecutionId};
use tokio::sync::watch;

/// A boxed future, as erased actions return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The handling of an attempt with an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Run it again; a repetition does no harm.
    Safe,
    /// Run it again only after a probe found that it did not take effect.
    AfterProbe,
}

/// Where the result of an action can come from. Decides whether an operator can mark the action as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSource {
    /// Only the action can observe it. An operator cannot state it.
    Observation,
    /// Work that can also be done by other means. An operator can state that it is done, and with which result.
    Deed,
    /// A decision on our own documents, whose writes are part of it. An operator cannot state it.
    Decision,
}

/// A probe's finding about an earlier attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe<O> {
    /// It took effect, and this is its result.
    Done(O),
    /// It did not take effect; send it again.
    NotDone,
    /// It is still running; check again.
    Running,
    /// The object that it acted on no longer exists.
    Gone,
    /// The target cannot say.
    CannotTell,
}

/// One change of an external system.
///
/// The doc of an implementor answers two questions: why is it safe to run twice, and what does its undo tolerate?
pub trait Action: Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Names the action in journals, trails, diagrams, plans, limits and metrics.
    ///
    /// It is persisted, and the engine finds the undo of a running execution by it: never change it, not even when the type is
    /// renamed. Unique within a workflow. An imperative in `PascalCase`, such as `CreateQueue`.
    const NAME: &'static str;
    /// The external system that it acts on.
    type Platform: Send + Sync + 'static;
    /// Its result.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// The handling of an attempt with an unknown outcome.
    const REPEAT: Repeat = Repeat::Safe;
    /// Where its result can come from. An action that does not say otherwise is an observation, which no operator can
    /// [mark as done](crate::Repair::MarkDone): a new verification cannot be stated by mistake.
    const RESULT: ResultSource = ResultSource::Observation;
    /// True if later steps rely on its protection, such as a hold or a freeze.
    ///
    /// A step with such an action never continues without it: a permanent failure parks the execution, and the static
    /// check refuses an edge that leads past the failure.
    const PROTECTS: bool = false;

    /// Runs the action. Called at least once; `call.key()` is the same on every attempt.
    ///
    /// # Errors
    /// The class of the error decides how the engine reacts: see [`Class`](crate::Class).
    fn run(
        &self,
        on: &Self::Platform,
        call: &Call,
    ) -> impl Future<Output = Result<Self::Output, ActionError>> + Send;

    /// Returns additional keys, each `kind/name`, by which operators may limit the action: the systems it depends on,
    /// such as `cluster/eu-1`. The tenant and the action's name are always keys. Each key has a circuit breaker. Must not
    /// change between attempts.
    fn limited_by(&self) -> Vec<String> {
        Vec::new()
    }

    /// Finds out whether an earlier attempt took effect. Changes nothing.
    ///
    /// # Errors
    /// A failed probe leaves the outcome unknown. It is retried like the action.
    fn probe(
        &self,
        on: &Self::Platform,
        call: &Call,
    ) -> impl Future<Output = Result<Probe<Self::Output>, ActionError>> + Send {
        let _ = (on, call);
        async { Ok(Probe::CannotTell) }
    }
}

/// One change of documents of the store, decided on their current content.
pub trait LedgerAction: Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Names the action. It is persisted: never change it. The rules of [`Action::NAME`] apply.
    const NAME: &'static str;
    /// Its result.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// True if later steps rely on its protection, such as a hold or a freeze.
    ///
    /// A step with such an action never continues without it: a permanent failure parks the execution, and the static
    /// check refuses an edge that leads past the failure.
    const PROTECTS: bool = false;

    /// Decides. Pure: it may be called many times, and only the writes of the committed call take effect.
    ///
    /// # Errors
    /// Returns [`Undecided::Failed`] with a class as for actions. [`Undecided::Needs`] comes from the view; return it
    /// with `?`.
    fn decide(&self, view: &mut View, call: &Call) -> Result<Self::Output, Undecided>;
}

/// The circumstances of one attempt.
#[derive(Clone, Debug)]
pub struct Call {
    /// The execution that the attempt belongs to.
    pub execution: ExecutionId,
    /// The name of the state whose action runs or is undone.
    pub state: String,
    /// Counts the states entered before, so that a state that is entered twice runs its actions twice.
    pub states_entered: u32,
    /// The slot of the state.
    pub slot: u32,
    /// Counts the repairs that changed the slot's action.
    pub slot_revision: u32,
    /// True for a compensation.
    pub undo: bool,
    /// Counts the repairs that chose another undo.
    pub undo_revision: u32,
    /// Counts attempts from 1, including those before a crash.
    pub attempt: u32,
    /// The fencing token. A target that can compare tokens rejects one smaller than it has seen.
    pub epoch: Epoch,
    /// The last stored note that an earlier attempt passed to [`Call::heartbeat`], usually its progress. Notes of an
    /// attempt whose process crashed are lost.
    pub last_heartbeat: Option<String>,
    pub(crate) beats: Option<Arc<watch::Sender<Heartbeat>>>,
}

/// Progress that an action reports while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// Counts the reports.
    pub(crate) count: u64,
    /// The current progress, for people.
    pub(crate) note: String,
}

impl Call {
    /// The idempotency key: the same on every attempt, and over restarts and retries by operators.
    #[must_use]
    pub fn key(&self) -> String {
        let counted =
            |mark: &str, count: u32| if count > 0 { format!("{mark}{count}") } else { String::new() };
        let slot_revision = counted(".", self.slot_revision);
        let undo =
            if self.undo { format!("/undo{}", counted(".", self.undo_revision)) } else { String::new() };
        format!(
            "{}/{}/{}/{}{slot_revision}{undo}",
            self.execution, self.state, self.states_entered, self.slot
        )
    }

    /// Reports that the action is alive. If the step has a heartbeat limit, the action must call this more often.
    /// After a failure, the next attempt finds the last note in [`Call::last_heartbeat`].
    pub fn heartbeat(&self, note: &str) {
        if let Some(beats) = &self.beats {
            beats.send_modify(|beat| {
                beat.count += 1;
                beat.note = note.to_owned();
            });
        }
    }
}

/// One second; `30 * SECOND` is a span for steps and tests.
pub const SECOND: Duration = Duration::from_secs(1);
/// Sixty seconds.
pub const MINUTE: Duration = Duration::from_secs(60);
/// Sixty minutes.
pub const HOUR: Duration = Duration::from_secs(3_600);
/// Twenty-four hours.
pub const DAY: Duration = Duration::from_secs(86_400);

/// The handling of an action's permits while it is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhilePending {
    /// They are released until the next check, because the pending work does not load the system behind the key.
    #[default]
    ReleasePermits,
    /// They are held until the action ends, because the pending work loads the system behind the key.
    KeepPermits,
}

impl Call {
    /// Describes the call in logs. Differs for each time that a state is entered.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} (attempt {}, epoch {})", self.key(), self.attempt, self.epoch.0)
    }
}
