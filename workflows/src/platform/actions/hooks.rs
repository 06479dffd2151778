//! Hooks: external systems that an operator connects by name, such as a Terraform module or an HTTP service.
//!
//! A workflow names the hook and its arguments; the target file says which backend serves that name. Invariant: the arguments are plain data that may
//! appear in plans and journals, never secrets.

use crate::platform::{CallMetadata, Hook, HookOutput, Platform, codes};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

/// Calls a hook.
///
/// Safe to run twice if the hook keeps its contract. The key is the same on every attempt, and after a lost response the hook is probed before it is
/// called again. Its undo, [`UndoHook`], calls the same hook with the same arguments and the verb `undo`. The hook must tolerate that the call never
/// ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunHook {
    /// The hook's name and its arguments.
    #[serde(flatten)]
    pub hook: Hook,
}

/// Undoes a call of a hook.
///
/// Safe to run twice if the hook keeps its contract. Tolerates that the call never ran, or ran only in part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UndoHook {
    /// The hook and the arguments of the call to undo.
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

    /// The error for a hook that the target file does not name. Nothing was called.
    #[must_use]
    pub fn missing(&self) -> ActionError {
        let why = format!("the file of targets has no hook {:?}", self.name);
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
