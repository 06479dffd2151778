//! Hooks: what an operator plugs in from outside, such as a Terraform module or a service of the house, by a name.
//!
//! A workflow says which hook and with what; the file of targets says what stands behind the name. Invariant: the arguments
//! are plain data that may be shown in plans and kept in journals. A secret does not belong there.

use crate::platform::Platform;
use crate::platform::{Stamp, codes};
use async_trait::async_trait;
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

/// A hook with what it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Its name in the file of targets.
    pub name: String,
    /// For which tenant.
    pub tenant: String,
    /// What it is given, as the hook wants it.
    #[serde(default)]
    pub arguments: Value,
}

/// What hooks are called through.
///
/// An implementor promises that a call carries the stamp's key, step and epoch, that it is over when the stamp's deadline is, and
/// that dropping it ends what it began here. What stands behind the hook promises what `docs/backends/contract.md` says: a key
/// that was done is answered as before, an undo tolerates that its run never was.
#[async_trait]
pub trait Hooks: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Does what the hook does, and says what it learned. At work still: [`HOOK_PENDING`](codes::HOOK_PENDING), pending; called
    /// again with the same key, it says how it stands.
    async fn run(&self, hook: &Hook, stamp: &Stamp) -> Result<Value, ActionError>;

    /// Asks what became of an earlier run with this key. Changes nothing.
    async fn probe(&self, hook: &Hook, stamp: &Stamp) -> Result<Probe<Value>, ActionError>;

    /// Takes back what the run of this step did, however far it came.
    async fn undo(&self, hook: &Hook, stamp: &Stamp) -> Result<Value, ActionError>;
}

/// What is learned from a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutput {
    /// Which hook.
    pub hook: String,
    /// What it said.
    pub output: Value,
}

/// Calls a hook.
///
/// Safe to run twice as far as the hook keeps its promise: the key is the same on every attempt, and after a lost answer the hook
/// is asked what became of it before it is called again. Its undo, [`UndoHook`], calls the same hook with the same arguments and
/// the verb `undo`, which must tolerate that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunHook {
    /// Which, with what.
    #[serde(flatten)]
    pub hook: Hook,
}

/// Takes back what a hook did.
///
/// Safe to run twice, and tolerates that the hook never ran or came half way, as far as the hook keeps its promise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UndoHook {
    /// Which, with what it was given.
    #[serde(flatten)]
    pub hook: Hook,
}

fn at_hook(hook: &Hook) -> Vec<String> {
    vec![format!("hook/{}", hook.name)]
}

impl Hook {
    fn said(&self, output: Value) -> HookOutput {
        HookOutput { hook: self.name.clone(), output }
    }

    async fn asked(&self, on: &Platform, stamp: &Stamp) -> Result<Probe<HookOutput>, ActionError> {
        Ok(match on.hooks.probe(self, stamp).await? {
            Probe::Done(output) => Probe::Done(self.said(output)),
            Probe::NotDone => Probe::NotDone,
            Probe::Running => Probe::Running,
            Probe::Gone => Probe::Gone,
            Probe::CannotTell => Probe::CannotTell,
        })
    }

    /// That there is no such hook. Nothing was called.
    #[must_use]
    pub fn missing(&self) -> ActionError {
        let why = format!("no hook is named {:?} in the file of targets", self.name);
        ActionError::permanent(codes::HOOK_MISSING, why)
    }
}

impl Action for RunHook {
    const NAME: &'static str = "RunHook";
    type Platform = Platform;
    type Output = HookOutput;
    const REPEAT: Repeat = Repeat::AfterProbe;

    fn limited_by(&self) -> Vec<String> {
        at_hook(&self.hook)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<HookOutput, ActionError> {
        Ok(self.hook.said(on.hooks.run(&self.hook, &Stamp::of(self, call)).await?))
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<HookOutput>, ActionError> {
        self.hook.asked(on, &Stamp::of(self, call)).await
    }
}

impl Action for UndoHook {
    const NAME: &'static str = "UndoHook";
    type Platform = Platform;
    type Output = HookOutput;
    const REPEAT: Repeat = Repeat::AfterProbe;

    fn limited_by(&self) -> Vec<String> {
        at_hook(&self.hook)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<HookOutput, ActionError> {
        Ok(self.hook.said(on.hooks.undo(&self.hook, &Stamp::of(self, call)).await?))
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<HookOutput>, ActionError> {
        self.hook.asked(on, &Stamp::of(self, call)).await
    }
}
