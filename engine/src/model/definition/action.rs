//! What a step does: an [`Action`] on the world outside, or a [`LedgerAction`] on our own documents.
//!
//! Actuator actions run at least once, with the same idempotency key on every attempt. Ledger actions are decided
//! purely and their writes are part of the commit that settles the step: exactly once. Both are plain structs, so
//! that their arguments can be audited, shown in a plan, and stored with the trail.

use crate::{ActionError, Undecided, View};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc, time::Duration};
use store::{Epoch, ExecutionId};
use tokio::sync::watch;

/// A boxed future, as erased actions return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What may be done about an attempt whose outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Running it again does no harm.
    Safe,
    /// It must not be sent again before a probe has said that it did not happen.
    AfterProbe,
}

/// Where the result of an action can come from. Decides whether an operator can mark the action as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSource {
    /// Only the action can learn it, by looking. An operator cannot state it.
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
    /// It is still at work; look again.
    Running,
    /// What it was done to no longer exists.
    Gone,
    /// The target cannot say.
    CannotTell,
}

/// One thing done to the world outside.
///
/// The doc of an implementor answers two questions: why is it safe to run twice, and what does its undo tolerate?
pub trait Action: Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Names the action in journals, trails, diagrams, plans, limits and metrics.
    ///
    /// It is persisted, and the engine finds the undo of a running execution by it: never change it, not even when the type is
    /// renamed. Unique within a workflow. An imperative in `PascalCase`, such as `CreateQueue`.
    const NAME: &'static str;
    /// What it acts on.
    type Platform: Send + Sync + 'static;
    /// What it learns.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// What may be done when an attempt's outcome is unknown.
    const REPEAT: Repeat = Repeat::Safe;
    /// Where its result can come from. An action that does not say otherwise is an observation, which no operator can
    /// [mark as done](crate::Repair::MarkDone): a new verification cannot be stated by mistake.
    const RESULT: ResultSource = ResultSource::Observation;
    /// True if what follows relies on it to protect something, as on a hold or a freeze.
    ///
    /// A step with such an action never goes on without it: a final failure parks the execution, and the static check
    /// refuses a way out of the step that leads past the failure.
    const PROTECTS: bool = false;

    /// Does it. Called at least once; `call.key()` is the same on every attempt.
    ///
    /// # Errors
    /// By class: see [`Class`](crate::Class).
    fn run(
        &self,
        on: &Self::Platform,
        call: &Call,
    ) -> impl Future<Output = Result<Self::Output, ActionError>> + Send;

    /// The keys under which operators may limit it beside its tenant's and its own name, each `kind/name`: what it depends
    /// on, such as `cluster/eu-1`. A breaker watches over each. Must not change between attempts.
    fn limited_by(&self) -> Vec<String> {
        Vec::new()
    }

    /// Finds out whether an earlier attempt took effect. Changes nothing.
    ///
    /// # Errors
    /// A failure to ask is not an answer: it is retried like the action.
    fn probe(
        &self,
        on: &Self::Platform,
        call: &Call,
    ) -> impl Future<Output = Result<Probe<Self::Output>, ActionError>> + Send {
        let _ = (on, call);
        async { Ok(Probe::CannotTell) }
    }
}

/// One thing done to our own documents, decided on what they say.
pub trait LedgerAction: Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Names the action. It is persisted: never change it. The rules of [`Action::NAME`] apply.
    const NAME: &'static str;
    /// What it learns.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// True if what follows relies on it to protect something, as on a hold or a freeze.
    ///
    /// A step with such an action never goes on without it: a final failure parks the execution, and the static check
    /// refuses a way out of the step that leads past the failure.
    const PROTECTS: bool = false;

    /// Decides. Pure: it may be called many times, and only the writes of the call that commits remain.
    ///
    /// # Errors
    /// [`Undecided::Failed`] with a class as for actions; [`Undecided::Needs`] comes from the view, pass it on by `?`.
    fn decide(&self, view: &mut View, call: &Call) -> Result<Self::Output, Undecided>;
}

/// The circumstances of one attempt.
#[derive(Clone, Debug)]
pub struct Call {
    /// On whose behalf.
    pub execution: ExecutionId,
    /// The state that does it (or whose work is undone), by name.
    pub state: String,
    /// Counts the states entered before, so that a state entered twice acts twice.
    pub states_entered: u32,
    /// Which of the state's slots.
    pub slot: u32,
    /// Counts the times that an operator has changed what the slot does.
    pub slot_revision: u32,
    /// True when a compensation is run.
    pub undo: bool,
    /// Counts the times that an operator has said how else to undo it.
    pub undo_revision: u32,
    /// Counts attempts from 1, those before a crash included.
    pub attempt: u32,
    /// The fencing token: a target that can compare refuses a smaller one than it has seen.
    pub epoch: Epoch,
    /// The last thing that an earlier attempt said with [`Call::heartbeat`] and that was kept: how far it came. What was said by
    /// an attempt that ended with its process is lost.
    pub last_heartbeat: Option<String>,
    pub(crate) beats: Option<Arc<watch::Sender<Heartbeat>>>,
}

/// Progress that an action reports while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// Counts the reports.
    pub(crate) count: u64,
    /// What is being done, for people.
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

    /// Says that the action is alive; an action whose step has a heartbeat time-out must call it more often than that. If the
    /// attempt fails, the next one finds the last note in [`Call::last_heartbeat`].
    pub fn heartbeat(&self, note: &str) {
        if let Some(beats) = &self.beats {
            beats.send_modify(|beat| {
                beat.count += 1;
                beat.note = note.to_owned();
            });
        }
    }
}

/// Shorthand for tests and steps: `SECOND * 30`.
pub const SECOND: Duration = Duration::from_secs(1);
/// Sixty seconds.
pub const MINUTE: Duration = Duration::from_secs(60);
/// Sixty minutes.
pub const HOUR: Duration = Duration::from_secs(3_600);
/// Twenty-four hours.
pub const DAY: Duration = Duration::from_secs(86_400);

/// What becomes of the places of an action that answers that it is not done yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhilePending {
    /// They are given back, and taken anew when it is looked at again: what is waited for needs nothing of the key.
    #[default]
    ReleasePermits,
    /// They stay taken until it has ended: what is waited for is work that the key has to bear.
    KeepPermits,
}

impl Call {
    /// Tells the calls of a state entered twice apart in logs.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} (attempt {}, epoch {})", self.key(), self.attempt, self.epoch.0)
    }
}
