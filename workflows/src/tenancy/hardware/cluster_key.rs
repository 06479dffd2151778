//! The key of a cluster, of its own or shared: only its hash is kept.

use crate::tenancy::{ClusterId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// What a key may be used for, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KeyScope {
    /// Push facts about the cluster.
    #[serde(rename = "facts.push")]
    PushFacts,
    /// Fetch commands for the cluster.
    #[serde(rename = "commands.pull")]
    PullCommands,
}

impl KeyScope {
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
    /// The tenant that holds it; `None` of a cluster that tenants share, whose key the platform holds.
    #[serde(default)]
    pub tenant: Option<TenantId>,
    /// Counts the cluster's keys, from 1.
    pub version: u32,
    /// SHA-256 of the secret in hexadecimal; `None` until the secret was drawn, at hand-over. Opens nothing until then.
    pub hash: Option<String>,
    /// What it may be used for.
    pub scopes: Vec<KeyScope>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// Who issued it; `None` of one that an execution issued, or a version that did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_by: Option<String>,
    /// The key before, which holds beside this one for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<PreviousKey>,
    /// When it was revoked, and the one before with it.
    pub revoked_at: Option<Timestamp>,
    /// Who revoked it; `None` if it was an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_for: Option<String>,
}

/// A key that was followed by another, so long as it holds beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousKey {
    /// Its version.
    pub version: u32,
    /// SHA-256 of its secret, in hexadecimal.
    pub hash: String,
    /// Until when it holds, that moment excluded.
    pub until: Timestamp,
}

/// What a secret is to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterKeyStatus {
    /// It opens what the key is for.
    Holds,
    /// Its time beside its successor is over.
    Replaced,
    /// It was revoked.
    Revoked,
}

impl ClusterKey {
    /// How a secret stands at the moment `now` that one of the hashes `matches`; `None` if none does.
    pub fn status_of(&self, now: Timestamp, matches: impl Fn(&str) -> bool) -> Option<ClusterKeyStatus> {
        // Both are compared, so that the time tells nothing.
        let newest = self.hash.as_deref().is_some_and(&matches);
        let earlier = self.earlier.as_ref().filter(|earlier| matches(&earlier.hash));
        if !newest && earlier.is_none() {
            return None;
        }
        Some(match earlier {
            _ if self.revoked_at.is_some() => ClusterKeyStatus::Revoked,
            Some(earlier) if !newest && earlier.until <= now => ClusterKeyStatus::Replaced,
            Some(_) | None => ClusterKeyStatus::Holds,
        })
    }

    /// The key before, if it holds at the moment `now`.
    #[must_use]
    pub fn overlapping_key(&self, now: Timestamp) -> Option<&PreviousKey> {
        self.earlier.as_ref().filter(|earlier| self.revoked_at.is_none() && now < earlier.until)
    }

    /// The same, opening nothing from `now` on, and the one before neither.
    #[must_use]
    pub fn into_revoked(self, now: Timestamp, by: Option<String>, why: Option<String>) -> Self {
        Self { revoked_at: Some(now), revoked_by: by, revoked_for: why, ..self }
    }
}

impl Entity for ClusterKey {
    const COLLECTION: &'static str = "cluster-keys";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.cluster.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_written_before_keys_were_rotated_can_still_be_read() {
        let written = r#"{"cluster":"own-1","tenant":"uno","version":1,"hash":"ab","scopes":["facts.push"],
            "created_at":7,"revoked_at":null}"#;
        let key: ClusterKey = serde_json::from_str(written).unwrap();
        assert_eq!((key.earlier.as_ref(), key.issued_by.as_deref()), (None, None));
        assert_eq!(key.status_of(Timestamp(8), |hash| hash == "ab"), Some(ClusterKeyStatus::Holds));
        let again = serde_json::to_value(&key).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(written).unwrap());
    }
}
