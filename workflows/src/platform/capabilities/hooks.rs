//! Hooks: what an operator plugs in from outside, such as a Terraform module, by a name.

use crate::platform::CallMetadata;
use async_trait::async_trait;
use engine::{ActionError, Probe};
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

    /// Does what the hook does, and says what it learned. At work still: `HOOK_PENDING`, pending; called
    /// again with the same key, it says how it stands.
    async fn run(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError>;

    /// Asks what became of an earlier run with this key. Changes nothing.
    async fn probe(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Probe<Value>, ActionError>;

    /// Takes back what the run of this step did, however far it came.
    async fn undo(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError>;
}

/// What is learned from a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutput {
    /// Which hook.
    pub hook: String,
    /// What it said.
    pub output: Value,
}
