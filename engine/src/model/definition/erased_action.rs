//! Actions with their types erased, as steps and the worker hold them.
//!
//! Built by the builders of `authoring`; performed by the worker. Invariant: the name and the arguments are those of
//! the typed action.

use super::child::ErasedChild;
use crate::{
    Action, ActionError, BoxFuture, Call, LedgerAction, Probe, Repeat, ResultSource, Undecided, View,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{any::TypeId, fmt::Debug, sync::Arc};

/// An [`Action`] with its types erased.
pub(crate) trait DynAction<P>: Debug + Send + Sync {
    fn run<'a>(&'a self, on: &'a P, call: &'a Call) -> BoxFuture<'a, Result<Value, ActionError>>;
    fn probe<'a>(&'a self, on: &'a P, call: &'a Call) -> BoxFuture<'a, Result<Probe<Value>, ActionError>>;
}

impl<A: Action> DynAction<A::Platform> for A {
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

/// A [`LedgerAction`] with its types erased.
pub(crate) trait DynLedgerAction: Debug + Send + Sync {
    fn decide(&self, view: &mut View, call: &Call) -> Result<Value, Undecided>;
}

impl<A: LedgerAction> DynLedgerAction for A {
    fn decide(&self, view: &mut View, call: &Call) -> Result<Value, Undecided> {
        Ok(encode(&LedgerAction::decide(self, view, call)?)?)
    }
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Value, ActionError> {
    serde_json::to_value(value).map_err(|e| ActionError::permanent("engine.encode", e))
}

/// Either kind of action, with its name and arguments.
#[derive(Debug)]
pub struct ErasedAction<P> {
    /// [`Action::NAME`] or [`LedgerAction::NAME`]; for a child, the name of its workflow.
    pub name: &'static str,
    /// The action's type; `None` for a child and for its cancellation.
    pub(crate) type_id: Option<TypeId>,
    /// The action's fields.
    pub arguments: Value,
    pub(crate) repeat: Repeat,
    pub(crate) result: ResultSource,
    /// [`Action::PROTECTS`] or [`LedgerAction::PROTECTS`].
    pub(crate) protects: bool,
    /// Limit keys in addition to its tenant and its name.
    pub(crate) keys: Vec<String>,
    pub(crate) kind: ErasedActionKind<P>,
}

impl<P> Clone for ErasedActionKind<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Actuator(action) => Self::Actuator(action.clone()),
            Self::Ledger(action) => Self::Ledger(action.clone()),
            Self::Child(child) => Self::Child(child.clone()),
            Self::CancelChild => Self::CancelChild,
        }
    }
}

impl<P> Clone for ErasedAction<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            type_id: self.type_id,
            arguments: self.arguments.clone(),
            repeat: self.repeat,
            result: self.result,
            protects: self.protects,
            keys: self.keys.clone(),
            kind: self.kind.clone(),
        }
    }
}

impl<P> ErasedAction<P> {
    /// Returns the cluster among its keys, or an empty string.
    pub(crate) fn cluster(&self) -> &str {
        self.keys.iter().find_map(|key| key.strip_prefix("cluster/")).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) enum ErasedActionKind<P> {
    Actuator(Arc<dyn DynAction<P>>),
    Ledger(Arc<dyn DynLedgerAction>),
    Child(Arc<dyn ErasedChild>),
    CancelChild,
}

/// Marks [`Action`]s in [`StepAction`].
#[derive(Debug)]
pub struct ActuatorMarker;

/// Marks [`LedgerAction`]s in [`StepAction`].
#[derive(Debug)]
pub struct LedgerMarker;

/// Either kind of action, so that `act(..)` and `.undo(..)` take both.
pub trait StepAction<Kind>: Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its result.
    type Output: Serialize + DeserializeOwned + 'static;
}

impl<A: Action> StepAction<ActuatorMarker> for A {
    type Output = A::Output;
}

impl<A: LedgerAction> StepAction<LedgerMarker> for A {
    type Output = A::Output;
}

/// An action that runs on a platform `P`.
pub trait IntoErasedAction<P, Kind>: StepAction<Kind> {
    /// Erases the action's type.
    fn into_erased(self) -> ErasedAction<P>;
}

impl<P, A: Action<Platform = P>> IntoErasedAction<P, ActuatorMarker> for A {
    fn into_erased(self) -> ErasedAction<P> {
        let arguments = serde_json::to_value(&self).unwrap_or(Value::Null);
        let keys = self.limited_by();
        let type_id = Some(TypeId::of::<A>());
        let kind = ErasedActionKind::Actuator(Arc::new(self));
        ErasedAction {
            name: A::NAME,
            type_id,
            arguments,
            repeat: A::REPEAT,
            result: A::RESULT,
            protects: A::PROTECTS,
            keys,
            kind,
        }
    }
}

impl<P, A: LedgerAction> IntoErasedAction<P, LedgerMarker> for A {
    fn into_erased(self) -> ErasedAction<P> {
        let arguments = serde_json::to_value(&self).unwrap_or(Value::Null);
        let type_id = Some(TypeId::of::<A>());
        let kind = ErasedActionKind::Ledger(Arc::new(self));
        ErasedAction {
            name: A::NAME,
            type_id,
            arguments,
            repeat: Repeat::Safe,
            result: ResultSource::Decision,
            protects: A::PROTECTS,
            keys: Vec::new(),
            kind,
        }
    }
}
