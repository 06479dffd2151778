//! The key of a dedicated or shared cluster. Only its hash is stored.

use crate::tenancy::{ClusterId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The permitted uses of a key.
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
    /// Returns the name in the store and in policies.
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
    /// The only cluster that the key is valid for (I-19).
    pub cluster: ClusterId,
    /// The tenant that has the key; `None` for a shared cluster, whose key the platform has.
    #[serde(default)]
    pub tenant: Option<TenantId>,
    /// The number of the cluster's key, from 1.
    pub version: u32,
    /// SHA-256 of the secret in hexadecimal; `None` before the secret is created at hand-over. Until then the key is not valid.
    pub hash: Option<String>,
    /// The permitted uses.
    pub scopes: Vec<KeyScope>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// The user who issued it; `None` for a key from an execution or an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_by: Option<String>,
    /// The previous key, which stays valid for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<PreviousKey>,
    /// When it was revoked together with its previous key.
    pub revoked_at: Option<Timestamp>,
    /// The user who revoked it; `None` for an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    /// The reason of the revocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_for: Option<String>,
}

/// A replaced key during its overlap with the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousKey {
    /// The version.
    pub version: u32,
    /// SHA-256 of its secret, in hexadecimal.
    pub hash: String,
    /// The end of its validity, exclusive.
    pub until: Timestamp,
}

/// The status of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterKeyStatus {
    /// Valid.
    Holds,
    /// Replaced, and its overlap has ended.
    Replaced,
    /// Revoked.
    Revoked,
}

impl ClusterKey {
    /// Returns the status at `now` of a secret whose hash `matches`; `None` if no hash matches.
    pub fn status_of(&self, now: Timestamp, matches: impl Fn(&str) -> bool) -> Option<ClusterKeyStatus> {
        // Both are compared, so that the duration reveals nothing.
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

    /// Returns the previous key, if it is valid at `now`.
    #[must_use]
    pub fn overlapping_key(&self, now: Timestamp) -> Option<&PreviousKey> {
        self.earlier.as_ref().filter(|earlier| self.revoked_at.is_none() && now < earlier.until)
    }

    /// Returns the key as revoked from `now` on, with its previous key.
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
    fn a_key_stored_before_key_rotation_is_readable() {
        let written = r#"{"cluster":"own-1","tenant":"uno","version":1,"hash":"ab","scopes":["facts.push"],
            "created_at":7,"revoked_at":null}"#;
        let key: ClusterKey = serde_json::from_str(written).unwrap();
        assert_eq!((key.earlier.as_ref(), key.issued_by.as_deref()), (None, None));
        assert_eq!(key.status_of(Timestamp(8), |hash| hash == "ab"), Some(ClusterKeyStatus::Holds));
        let again = serde_json::to_value(&key).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(written).unwrap());
    }
}
