//! What passes between the capabilities and a world: one request, one response.

use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{any::Any, fmt::Debug};
use workflows::platform::FoundObject;

/// A world that takes calls.
///
/// An implementor promises that a key that took effect is answered as before and changes nothing, and that an effect
/// is kept before it is answered.
#[async_trait]
pub trait World: Debug + Send + Sync {
    /// Does, or looks at, one thing.
    ///
    /// # Errors
    /// By class, with a code of [`codes`](workflows::platform::codes).
    async fn call(&self, request: Request) -> Result<Response, ActionError>;

    /// The `LocalWorld` that this is or wraps, if it is in this process.
    fn local(&self) -> Option<&dyn Any> {
        None
    }
}

/// Which part of the world is called.
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
    /// What hooks did.
    Hooks,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verb {
    /// How does it stand?
    Read,
    /// Test it, changing nothing.
    Check,
    /// Make it be so.
    Apply,
    /// Set some fields of it.
    Patch,
    /// Set one field of it, if the field is as it was read.
    Swap,
    /// Begin to delete it.
    Delete,
    /// Give a node to a tenant.
    Take,
    /// Keep new work from a node.
    Cordon,
    /// Let new work onto it again.
    Uncordon,
    /// End a tenant's ownership of a node.
    Return,
    /// Do something once, and report.
    Run,
    /// What of the tenant is there?
    List,
    /// Remove a page of what it holds.
    Empty,
}

impl Verb {
    /// Whether it can change the world.
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

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The action that calls.
    pub action: String,
    /// The step on whose behalf.
    pub step: String,
    /// The idempotency key.
    pub key: String,
    /// The fencing token, compared per step.
    pub epoch: u64,
    /// How long the caller waits, in milliseconds.
    pub deadline_ms: u64,
    /// Which part of the world.
    pub system: System,
    /// In which cluster; empty for what stands outside of clusters.
    #[serde(default)]
    pub cluster: String,
    /// What is asked.
    pub verb: Verb,
    /// Of what kind of thing.
    pub kind: String,
    /// Under which name.
    pub name: String,
    /// For which tenant.
    #[serde(default)]
    pub tenant: String,
    /// What it is to be.
    #[serde(default)]
    pub spec: Value,
    /// Only if it is this very object.
    #[serde(default)]
    pub precondition_uid: Option<String>,
    /// Answer as if, and change nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Request {
    /// Where in the world it points.
    #[must_use]
    pub fn address(&self) -> String {
        let system: &str = self.system.into();
        format!("{system}/{}/{}/{}", self.cluster, self.kind, self.name)
    }
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The object, if there is one.
    pub found: Option<FoundObject>,
    /// What else there is to say, by verb: an ownership, a layout, a finding.
    pub value: Value,
}
