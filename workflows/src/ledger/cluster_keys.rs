//! Keys of dedicated clusters. Secrets are drawn where people are admitted; only their hashes come here.

use super::codes;
use crate::tenancy::{ClusterId, ClusterKey, Scope, TenantId};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};

/// Issues the key of a cluster to its tenant: push facts, fetch commands, nothing else.
///
/// Safe to decide again: a key that stands for the tenant stays. Its undo is [`RevokeClusterKey`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IssueClusterKey {
    /// For which cluster, and no other.
    pub cluster: ClusterId,
    /// To whom.
    pub tenant: TenantId,
    /// SHA-256 of the secret in hexadecimal, if it has been drawn; else the key opens nothing yet.
    pub hash: Option<String>,
}

/// Which key was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Its version.
    pub version: u32,
}

impl LedgerAction for IssueClusterKey {
    type Output = Issued;

    fn decide(&self, view: &mut View, _: &Call) -> Result<Issued, Undecided> {
        let before = view.get::<ClusterKey>(self.cluster.as_str())?;
        if let Some(stands) = before.as_ref().filter(|key| key.revoked_at.is_none()) {
            if stands.tenant == self.tenant {
                return Ok(Issued { version: stands.version });
            }
            let problem = format!("cluster {} has a key of tenant {}", self.cluster, stands.tenant);
            return Err(ActionError::permanent(codes::KEY_TAKEN, problem).into());
        }
        let version = before.map_or(0, |key| key.version).saturating_add(1);
        view.put(&ClusterKey {
            cluster: self.cluster.clone(),
            tenant: self.tenant.clone(),
            version,
            hash: self.hash.clone(),
            scopes: vec![Scope::PushFacts, Scope::PullCommands],
            created_at: view.now(),
            revoked_at: None,
        })?;
        Ok(Issued { version })
    }
}

/// Makes the tenant's key of a cluster useless, and touches no other. Safe to run twice, and tolerates that none was
/// issued.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevokeClusterKey {
    /// Of which cluster.
    pub cluster: ClusterId,
    /// Of whom.
    pub tenant: TenantId,
}

impl LedgerAction for RevokeClusterKey {
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let found = view.get::<ClusterKey>(self.cluster.as_str())?;
        let ours = |key: &ClusterKey| key.tenant == self.tenant && key.revoked_at.is_none();
        let Some(key) = found.filter(ours) else { return Ok(()) };
        let revoked_at = Some(view.now());
        view.put(&ClusterKey { revoked_at, ..key })
    }
}
