//! Hooks: what an operator plugs in from outside, such as a Terraform module or a service of the house, by a name.
//!
//! A workflow says which hook and with what; the file of targets says what stands behind the name. Invariant: the arguments
//! are plain data that may be shown in plans and kept in journals. A secret does not belong there.

use crate::platform::{CallMetadata, Hook, HookOutput, Platform, codes};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

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
    fn to_output(&self, output: Value) -> HookOutput {
        HookOutput { hook: self.name.clone(), output }
    }

    async fn probe_output(
        &self,
        on: &Platform,
        stamp: &CallMetadata,
    ) -> Result<Probe<HookOutput>, ActionError> {
        Ok(match on.hooks.probe(self, stamp).await? {
            Probe::Done(output) => Probe::Done(self.to_output(output)),
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
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_hook(&self.hook)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<HookOutput, ActionError> {
        Ok(self.hook.to_output(on.hooks.run(&self.hook, &CallMetadata::for_action(self, call)).await?))
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<HookOutput>, ActionError> {
        self.hook.probe_output(on, &CallMetadata::for_action(self, call)).await
    }
}

impl Action for UndoHook {
    const NAME: &'static str = "UndoHook";
    type Platform = Platform;
    type Output = HookOutput;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_hook(&self.hook)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<HookOutput, ActionError> {
        Ok(self.hook.to_output(on.hooks.undo(&self.hook, &CallMetadata::for_action(self, call)).await?))
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<HookOutput>, ActionError> {
        self.hook.probe_output(on, &CallMetadata::for_action(self, call)).await
    }
}
