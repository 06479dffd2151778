//! What a step does: an [`Action`] on the world outside, or a [`LedgerAction`] on our own documents.
//!
//! Actuator actions run at least once, with the same idempotency key on every attempt. Ledger actions are decided
//! purely and their writes are part of the commit that settles the step: exactly once. Both are plain structs, so
//! that their arguments can be audited, shown in a plan, and stored with the trail.

use crate::{ActionError, Undecided, View, model::child::ErasedChild};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{any::TypeId, fmt::Debug, future::Future, pin::Pin, sync::Arc, time::Duration};
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
    pub entered: u32,
    /// Which of the state's slots.
    pub slot: u32,
    /// Counts the times that an operator has changed what the slot does.
    pub edition: u32,
    /// True when a compensation is run.
    pub undo: bool,
    /// Counts the times that an operator has said how else to undo it.
    pub ways: u32,
    /// Counts attempts from 1, those before a crash included.
    pub attempt: u32,
    /// The fencing token: a target that can compare refuses a smaller one than it has seen.
    pub epoch: Epoch,
    /// The last thing that an earlier attempt said with [`Call::beat`] and that was kept: how far it came. What was said by
    /// an attempt that ended with its process is lost.
    pub last_beat: Option<String>,
    pub(crate) beats: Option<Arc<watch::Sender<Beat>>>,
}

/// Progress that an action reports while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beat {
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
        let edition = counted(".", self.edition);
        let undo = if self.undo { format!("/undo{}", counted(".", self.ways)) } else { String::new() };
        format!("{}/{}/{}/{}{edition}{undo}", self.execution, self.state, self.entered, self.slot)
    }

    /// Says that the action is alive; an action whose step has a heartbeat time-out must call it more often than that. If the
    /// attempt fails, the next one finds the last note in [`Call::last_beat`].
    pub fn beat(&self, note: &str) {
        if let Some(beats) = &self.beats {
            beats.send_modify(|beat| {
                beat.count += 1;
                beat.note = note.to_owned();
            });
        }
    }
}

/// An [`Action`] with its types forgotten.
pub(crate) trait ErasedAction<P>: Debug + Send + Sync {
    fn run<'a>(&'a self, on: &'a P, call: &'a Call) -> BoxFuture<'a, Result<Value, ActionError>>;
    fn probe<'a>(&'a self, on: &'a P, call: &'a Call) -> BoxFuture<'a, Result<Probe<Value>, ActionError>>;
}

impl<A: Action> ErasedAction<A::Platform> for A {
    fn run<'a>(&'a self, on: &'a A::Platform, call: &'a Call) -> BoxFuture<'a, Result<Value, ActionError>> {
        Box::pin(async move { encode(&Action::run(self, on, call).await?) })
    }

    fn probe<'a>(
        &'a self,
        on: &'a A::Platform,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Probe<Value>, ActionError>> {
        Box::pin(async move {
            Ok(match Action::probe(self, on, call).await? {
                Probe::Done(output) => Probe::Done(encode(&output)?),
                Probe::NotDone => Probe::NotDone,
                Probe::Running => Probe::Running,
                Probe::Gone => Probe::Gone,
                Probe::CannotTell => Probe::CannotTell,
            })
        })
    }
}

/// A [`LedgerAction`] with its types forgotten.
pub(crate) trait ErasedLedger: Debug + Send + Sync {
    fn decide(&self, view: &mut View, call: &Call) -> Result<Value, Undecided>;
}

impl<A: LedgerAction> ErasedLedger for A {
    fn decide(&self, view: &mut View, call: &Call) -> Result<Value, Undecided> {
        Ok(encode(&LedgerAction::decide(self, view, call)?)?)
    }
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Value, ActionError> {
    serde_json::to_value(value).map_err(|e| ActionError::permanent("engine.encode", e))
}

/// Either kind of action, with its name and arguments.
#[derive(Debug)]
pub struct Deed<P> {
    /// [`Action::NAME`] or [`LedgerAction::NAME`]; for a child, the name of its workflow.
    pub name: &'static str,
    /// The action's type; `None` for a child and for its cancellation.
    pub(crate) type_id: Option<TypeId>,
    /// The action's fields.
    pub arguments: Value,
    pub(crate) repeat: Repeat,
    /// What it is limited by, beside its tenant and its name.
    pub(crate) keys: Vec<String>,
    pub(crate) kind: DeedKind<P>,
}

impl<P> Deed<P> {
    /// The cluster that it depends on, by its keys; empty for what depends on none.
    pub(crate) fn cluster(&self) -> &str {
        self.keys.iter().find_map(|key| key.strip_prefix("cluster/")).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) enum DeedKind<P> {
    Actuator(Box<dyn ErasedAction<P>>),
    Ledger(Box<dyn ErasedLedger>),
    Child(Box<dyn ErasedChild>),
    CancelChild,
}

/// Marks [`Action`]s in [`Doing`].
#[derive(Debug)]
pub struct Actuator;
/// Marks [`LedgerAction`]s in [`Doing`].
#[derive(Debug)]
pub struct Ledger;

/// Either kind of action, so that `act(..)` and `.undo(..)` take both.
pub trait Doing<Kind>: Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What it learns.
    type Output: Serialize + DeserializeOwned + 'static;
}
impl<A: Action> Doing<Actuator> for A {
    type Output = A::Output;
}
impl<A: LedgerAction> Doing<Ledger> for A {
    type Output = A::Output;
}

/// An action that can be done to a platform `P`.
pub trait DoneTo<P, Kind>: Doing<Kind> {
    /// Forgets the action's type.
    fn deed(self) -> Deed<P>;
}
impl<P, A: Action<Platform = P>> DoneTo<P, Actuator> for A {
    fn deed(self) -> Deed<P> {
        let arguments = serde_json::to_value(&self).unwrap_or(Value::Null);
        let keys = self.limited_by();
        let type_id = Some(TypeId::of::<A>());
        let kind = DeedKind::Actuator(Box::new(self));
        Deed { name: A::NAME, type_id, arguments, repeat: A::REPEAT, keys, kind }
    }
}
impl<P, A: LedgerAction> DoneTo<P, Ledger> for A {
    fn deed(self) -> Deed<P> {
        let arguments = serde_json::to_value(&self).unwrap_or(Value::Null);
        let type_id = Some(TypeId::of::<A>());
        let kind = DeedKind::Ledger(Box::new(self));
        Deed { name: A::NAME, type_id, arguments, repeat: Repeat::Safe, keys: Vec::new(), kind }
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
