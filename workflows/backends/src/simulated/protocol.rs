//! The protocol between capabilities and a simulated platform: one request, one response.

use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{any::Any, fmt::Debug};
use workflows::platform::FoundObject;

/// A simulated platform that accepts calls.
///
/// Implementations guarantee that a repeated key is answered as before without a change, and that a change is stored
/// before it is answered.
#[async_trait]
pub trait World: Debug + Send + Sync {
    /// Performs one request.
    ///
    /// # Errors
    ///
    /// Errors have a class and a code of [`codes`](workflows::platform::codes).
    async fn call(&self, request: Request) -> Result<Response, ActionError>;

    /// Returns the `LocalWorld` that this is or wraps, if it is in this process.
    fn local(&self) -> Option<&dyn Any> {
        None
    }
}

/// The called part of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum System {
    /// API servers of clusters.
    Kubernetes,
    /// Accounting of clusters.
    Slurm,
    /// GPUs of nodes.
    Gpus,
    /// The key store.
    Keys,
    /// The object store.
    Objects,
    /// The identity provider.
    Identity,
    /// Volumes, snapshots, file systems.
    Storage,
    /// Backups.
    Backups,
    /// Repositories of images, artifacts and models.
    Registry,
    /// Streams of logs and metrics.
    Logs,
    /// Names, addresses, partitions of the fabric.
    Network,
    /// Machines as hardware.
    Machines,
    /// Hooks.
    Hooks,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verb {
    /// Read the state.
    Read,
    /// Test it, without a change.
    Check,
    /// Create it or set its state.
    Apply,
    /// Set some fields.
    Patch,
    /// Set one field, if it has the value that was read.
    Swap,
    /// Begin its deletion.
    Delete,
    /// Give a node to a tenant.
    Take,
    /// Cordon a node.
    Cordon,
    /// Uncordon a node.
    Uncordon,
    /// End a tenant's ownership of a node.
    Return,
    /// Run an operation once and report.
    Run,
    /// List the objects of a tenant.
    List,
    /// Remove one page of its contents.
    Empty,
}

impl Verb {
    /// Returns true if the operation can change the state.
    #[must_use]
    pub fn changes(self) -> bool {
        match self {
            Self::Read | Self::Check | Self::List => false,
            Self::Apply
            | Self::Patch
            | Self::Swap
            | Self::Delete
            | Self::Take
            | Self::Cordon
            | Self::Uncordon
            | Self::Return
            | Self::Run
            | Self::Empty => true,
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The action that makes the call.
    pub action: String,
    /// The step that makes the call.
    pub step: String,
    /// The idempotency key.
    pub key: String,
    /// The fencing token, compared per step.
    pub epoch: u64,
    /// How long the caller waits, in milliseconds.
    pub deadline_ms: u64,
    /// The called part of the platform.
    pub system: System,
    /// The cluster; empty for systems without clusters.
    #[serde(default)]
    pub cluster: String,
    /// The operation.
    pub verb: Verb,
    /// The kind of object.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The tenant.
    #[serde(default)]
    pub tenant: String,
    /// The requested state.
    #[serde(default)]
    pub spec: Value,
    /// If set, the call applies only to the object with this uid.
    #[serde(default)]
    pub precondition_uid: Option<String>,
    /// True for a dry run, which changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Request {
    /// Returns the address of the object.
    #[must_use]
    pub fn address(&self) -> String {
        let system: &str = self.system.into();
        format!("{system}/{}/{}/{}", self.cluster, self.kind, self.name)
    }
}

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The object, if it exists.
    pub found: Option<FoundObject>,
    /// Other data, depending on the operation: an ownership, a layout or a finding.
    pub value: Value,
}
