//! Hooks: external systems that an operator connects by name, such as a Terraform module.

use crate::platform::CallMetadata;
use async_trait::async_trait;
use engine::{ActionError, Probe};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

/// A hook and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The hook's name in the target file.
    pub name: String,
    /// The tenant's id.
    pub tenant: String,
    /// The arguments, in the hook's own format.
    #[serde(default)]
    pub arguments: Value,
}

/// Calls hooks.
///
/// A call carries the key, step and epoch of its metadata. It ends at the deadline, and dropping it ends the local work that it started. The external
/// system must follow `docs/backends/contract.md`: a completed key is answered as before, and an undo tolerates that the run never happened.
#[async_trait]
pub trait Hooks: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Runs the hook and returns its output. If the hook is still working, fails with `HOOK_PENDING`, pending. A later call with the same key returns
    /// the progress.
    async fn run(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError>;

    /// Returns the outcome of an earlier run with this key. Changes nothing.
    async fn probe(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Probe<Value>, ActionError>;

    /// Undoes the run of this step, complete or partial.
    async fn undo(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError>;
}

/// Result of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutput {
    /// The hook's name.
    pub hook: String,
    /// The hook's output.
    pub output: Value,
}
