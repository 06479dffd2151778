//! The key of a dedicated cluster: only its hash is kept.

use super::{ClusterId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// What a key may be used for, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Push facts about the cluster.
    #[serde(rename = "facts.push")]
    PushFacts,
    /// Fetch commands for the cluster.
    #[serde(rename = "commands.pull")]
    PullCommands,
}

impl Scope {
    /// Its name, as it is stored and as policies have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PushFacts => "facts.push",
            Self::PullCommands => "commands.pull",
        }
    }
}

/// A cluster's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterKey {
    /// The cluster that it is for, and no other (I-19).
    pub cluster: ClusterId,
    /// The tenant that holds it.
    pub tenant: TenantId,
    /// Counts the cluster's keys, from 1.
    pub version: u32,
    /// SHA-256 of the secret in hexadecimal; `None` until the secret was drawn, at hand-over. Opens nothing until then.
    pub hash: Option<String>,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Entity for ClusterKey {
    const COLLECTION: &'static str = "cluster-keys";

    fn id(&self) -> String {
        self.cluster.to_string()
    }
}
