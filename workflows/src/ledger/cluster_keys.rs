//! Keys of clusters. The server creates the secrets, and only their hashes are stored here.

use super::codes;
use crate::{
    duration,
    tenancy::{
        Cluster, ClusterId, ClusterKey, KeyScope, PreviousKey, Tenancy, Tenant, TenantId, TenantState,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// The cluster has no owner, so its key cannot be rotated.
pub const KEY_ORPHANED: &str = "cluster_key.orphaned";
/// Two keys of the cluster are already valid.
pub const KEYS_OVERLAP: &str = "cluster_key.overlaps";

/// Issues the key of a cluster to its tenant. It may only push facts and fetch commands.
///
/// Safe to decide again: an existing key of the tenant is kept. [`RevokeClusterKey`] is the undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IssueClusterKey {
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The tenant's id.
    pub tenant: TenantId,
    /// The SHA-256 of the secret in hexadecimal, if it exists. Without it the key permits nothing yet.
    pub hash: Option<String>,
}

/// Result of issuing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedKey {
    /// The version of the key.
    pub version: u32,
}

impl LedgerAction for IssueClusterKey {
    const NAME: &'static str = "IssueClusterKey";
    type Output = IssuedKey;

    fn decide(&self, view: &mut View, _: &Call) -> Result<IssuedKey, Undecided> {
        let before = view.get::<ClusterKey>(self.cluster.as_str())?;
        let stands = before.as_ref().filter(|key| key.revoked_at.is_none());
        // The platform's earlier key of the cluster ends here.
        if let Some((stands, tenant)) = stands.and_then(|key| Some((key, key.tenant.as_ref()?))) {
            if *tenant == self.tenant {
                return Ok(IssuedKey { version: stands.version });
            }
            let problem = format!("cluster {} has a key of tenant {tenant}", self.cluster);
            return Err(ActionError::permanent(codes::KEY_TAKEN, problem).into());
        }
        let version = before.map_or(0, |key| key.version).saturating_add(1);
        view.put(&ClusterKey {
            cluster: self.cluster.clone(),
            tenant: Some(self.tenant.clone()),
            version,
            hash: self.hash.clone(),
            scopes: vec![KeyScope::PushFacts, KeyScope::PullCommands],
            created_at: view.now(),
            issued_by: None,
            earlier: None,
            revoked_at: None,
            revoked_by: None,
            revoked_for: None,
        })?;
        Ok(IssuedKey { version })
    }
}

/// Revokes the tenant's key of a cluster, and no other. Safe to run twice. Tolerates that none was issued.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevokeClusterKey {
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for RevokeClusterKey {
    const NAME: &'static str = "RevokeClusterKey";
    // Without this, a leaked key could stay valid unnoticed.
    const PROTECTS: bool = true;
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let found = view.get::<ClusterKey>(self.cluster.as_str())?;
        let ours = |key: &ClusterKey| key.tenant.as_ref() == Some(&self.tenant) && key.revoked_at.is_none();
        let Some(key) = found.filter(ours) else { return Ok(()) };
        let key = key.into_revoked(view.now(), None, None);
        view.put(&key)
    }
}

/// The rotation of a key.
#[derive(Clone, Debug)]
pub struct KeySuccession {
    /// The SHA-256 of the next secret, in hexadecimal.
    pub hash: String,
    /// How long the previous key stays valid. Zero ends it at once.
    pub overlap: Duration,
    /// True if the newest key was lost before use. It ends at once, and the previous key stays valid instead.
    pub lost: bool,
    /// The requester.
    pub by: String,
}

/// Returns the key of a registered cluster without a tenant, before its first secret. The platform owns it.
#[must_use]
pub fn undrawn_cluster_key(cluster: &Cluster) -> Option<ClusterKey> {
    let is_of_tenant = match &cluster.tenancy {
        Tenancy::Shared | Tenancy::Dedicated { tenant: None } => false,
        Tenancy::Dedicated { tenant: Some(_) } => true,
    };
    (!is_of_tenant).then(|| ClusterKey {
        cluster: cluster.id.clone(),
        tenant: None,
        version: 0,
        hash: None,
        scopes: vec![KeyScope::PushFacts, KeyScope::PullCommands],
        created_at: Timestamp(0),
        issued_by: None,
        earlier: None,
        revoked_at: None,
        revoked_by: None,
        revoked_for: None,
    })
}

/// Returns the current key of the cluster, even without a secret.
fn present_key(view: &mut View, cluster: &ClusterId) -> Result<ClusterKey, Undecided> {
    if let Some(key) = view.get::<ClusterKey>(cluster.as_str())? {
        return Ok(key);
    }
    let undrawn = view.get::<Cluster>(cluster.as_str())?.as_ref().and_then(undrawn_cluster_key);
    undrawn.map_or_else(|| view.require::<ClusterKey>(cluster.as_str()), Ok)
}

/// Fails if the holder of the key no longer holds the cluster.
fn check_holder(view: &mut View, key: &ClusterKey) -> Result<(), Undecided> {
    let cluster = &key.cluster;
    let Some(tenant) = &key.tenant else {
        let found = view.get::<Cluster>(cluster.as_str())?;
        if found.as_ref().and_then(undrawn_cluster_key).is_some() {
            return Ok(());
        }
        let problem = format!("cluster {cluster} is not the platform's: its tenant has its key");
        return Err(ActionError::permanent(KEY_ORPHANED, problem).into());
    };
    let holder = view.get::<Tenant>(tenant.as_str())?;
    let holds = |tenant: &Tenant| match tenant.state {
        TenantState::Onboarding | TenantState::Active | TenantState::Leaving => {
            tenant.cluster.as_ref() == Some(cluster)
        }
        TenantState::Destroying | TenantState::Closed => false,
    };
    if !holder.is_some_and(|tenant| holds(&tenant)) {
        let problem = format!("cluster {cluster} is no longer of tenant {tenant}, who held its key");
        return Err(ActionError::permanent(KEY_ORPHANED, problem).into());
    }
    Ok(())
}

/// Issues the next key of a cluster: after the current one, after a revoked one, or as the first of a shared cluster. It has the same permissions.
///
/// # Errors
/// `cluster_key.overlaps` while two keys are valid, because a third would cut off the users of the first. `cluster_key.orphaned` if the cluster has
/// no owner. `ledger.missing` if there is no such cluster.
pub fn rotate_cluster_key(
    view: &mut View,
    cluster: &ClusterId,
    next: &KeySuccession,
) -> Result<ClusterKey, Undecided> {
    let key = present_key(view, cluster)?;
    let now = view.now();
    check_holder(view, &key)?;
    let earlier = match key.overlapping_key(now) {
        _ if next.overlap.is_zero() => None,
        Some(earlier) if next.lost => {
            let until = earlier.until.max(now.after(next.overlap));
            Some(PreviousKey { until, ..earlier.clone() })
        }
        Some(earlier) => {
            let (two, until) = (earlier.version, earlier.until.0);
            let problem = format!(
                "key {} of cluster {cluster} has followed key {two}, which holds for another {}: wait, end both with an overlap of 0, or \
                 say that key {} was lost",
                key.version,
                duration::show(Duration::from_millis(until.saturating_sub(now.0))),
                key.version
            );
            return Err(ActionError::permanent(KEYS_OVERLAP, problem).into());
        }
        // A lost, revoked or undrawn key is not valid as the previous key.
        None if next.lost || key.revoked_at.is_some() => None,
        None => key.hash.clone().map(|hash| PreviousKey {
            version: key.version,
            hash,
            until: now.after(next.overlap),
        }),
    };
    let issued = ClusterKey {
        version: key.version.saturating_add(1),
        hash: Some(next.hash.clone()),
        created_at: now,
        issued_by: Some(next.by.clone()),
        earlier,
        revoked_at: None,
        revoked_by: None,
        revoked_for: None,
        ..key
    };
    view.put(&issued)?;
    Ok(issued)
}

/// Revokes a cluster's key and its previous key at once. An earlier revocation is left unchanged.
///
/// # Errors
/// `ledger.missing` if the cluster never had a key.
pub fn revoke_cluster_key(
    view: &mut View,
    cluster: &ClusterId,
    by: &str,
    why: &str,
) -> Result<ClusterKey, Undecided> {
    let key = view.require::<ClusterKey>(cluster.as_str())?;
    if key.revoked_at.is_some() {
        return Ok(key);
    }
    let revoked = key.into_revoked(view.now(), Some(by.into()), Some(why.into()));
    view.put(&revoked)?;
    Ok(revoked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::ClusterKeyStatus;
    use engine::{Entity as _, HOUR};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use store::{Document, ExecutionId, Key, Sequence};

    fn cluster() -> ClusterId {
        "own-1".parse().unwrap()
    }

    /// Returns a ledger with the cluster's key of this hash and its tenant in this state, an hour after both were created.
    fn books(key: &Value, state: &str) -> View {
        let tenant = json!({
            "id": "uno", "tier": "standard", "isolation": "dedicated_cluster", "data_residency": "any",
            "allow_preemption": false, "allow_gpu_sharing": false, "compliance": [], "state": state,
            "policy": { "name": "default", "version": 1, "digest": "sha256:ab" }, "workspaces": ["default"],
            "cluster": "own-1", "onboarded_by": ExecutionId::from_bytes([1; 16]), "created_at": 0, "activated_at": 0,
        });
        let document = |collection: &str, id: &str, body: &Value| {
            let key = Key::new(collection, id);
            let body = serde_json::to_vec(body).unwrap();
            (key.clone(), Some(Document { key, version: Sequence(1), body }))
        };
        let known =
            [document(ClusterKey::COLLECTION, "own-1", key), document(Tenant::COLLECTION, "uno", &tenant)];
        View::new(Timestamp(3_600_000), BTreeMap::from(known))
    }

    fn first() -> Value {
        json!({ "cluster": "own-1", "tenant": "uno", "version": 1, "hash": "one", "scopes": ["facts.push"],
            "created_at": 0, "revoked_at": null })
    }

    /// Returns a key that was followed by a second one an hour ago.
    fn second(holds_until: u64) -> Value {
        let mut key = first();
        key["version"] = json!(2);
        key["hash"] = json!("two");
        key["earlier"] = json!({ "version": 1, "hash": "one", "until": holds_until });
        key
    }

    fn next(hash: &str, overlap: Duration, lost: bool) -> KeySuccession {
        KeySuccession { hash: hash.into(), overlap, lost, by: "ada".into() }
    }

    fn code(refused: Undecided) -> String {
        match refused {
            Undecided::Failed(error) => error.code,
            Undecided::Needs(keys) => panic!("{keys:?}"),
        }
    }

    /// Returns the status of each hash, `after` milliseconds after the rotation.
    fn statuses(key: &ClusterKey, after: u64, hashes: &[&str]) -> Vec<Option<ClusterKeyStatus>> {
        let now = Timestamp(3_600_000 + after);
        hashes.iter().map(|hash| key.status_of(now, |kept| kept == *hash)).collect()
    }

    #[test]
    fn the_previous_key_is_valid_until_its_overlap_ends_and_has_the_same_permissions() {
        let mut view = books(&first(), "active");
        let key = rotate_cluster_key(&mut view, &cluster(), &next("two", HOUR, false)).unwrap();
        assert_eq!((key.version, key.issued_by.as_deref()), (2, Some("ada")));
        assert_eq!(key.scopes, [KeyScope::PushFacts], "a rotation gives back no scope that was taken");
        let (holds, gone) = (Some(ClusterKeyStatus::Holds), Some(ClusterKeyStatus::Replaced));
        assert_eq!(statuses(&key, 3_599_999, &["one", "two", "three"]), [holds, holds, None]);
        assert_eq!(statuses(&key, 3_600_000, &["one", "two"]), [gone, holds]);

        let mut view = books(&first(), "active");
        let key = rotate_cluster_key(&mut view, &cluster(), &next("two", Duration::ZERO, false)).unwrap();
        assert_eq!(statuses(&key, 0, &["one", "two"]), [None, holds]);
    }

    #[test]
    fn a_third_key_does_not_disconnect_users_of_the_first() {
        let (now, later) = (3_600_000, 3_600_000 + 60_000);
        let rotate = |holds_until, overlap, lost| {
            let mut view = books(&second(holds_until), "active");
            rotate_cluster_key(&mut view, &cluster(), &next("three", overlap, lost))
        };
        assert_eq!(code(rotate(later, HOUR, false).unwrap_err()), KEYS_OVERLAP);

        let (holds, gone) = (Some(ClusterKeyStatus::Holds), None);
        let lost = rotate(later, HOUR, true).unwrap();
        assert_eq!(statuses(&lost, 3_599_999, &["one", "two", "three"]), [holds, gone, holds]);
        let at_once = rotate(later, Duration::ZERO, false).unwrap();
        assert_eq!(statuses(&at_once, 0, &["one", "two", "three"]), [gone, gone, holds]);
        let after = rotate(now, HOUR, false).unwrap();
        assert_eq!(statuses(&after, 0, &["one", "two", "three"]), [gone, holds, holds]);
    }

    #[test]
    fn a_revoked_key_and_its_predecessor_stay_revoked_when_the_next_is_issued() {
        let mut view = books(&second(9_000_000), "active");
        let revoked = revoke_cluster_key(&mut view, &cluster(), "ada", "it leaked").unwrap();
        let gone = Some(ClusterKeyStatus::Revoked);
        assert_eq!(statuses(&revoked, 0, &["one", "two"]), [gone, gone]);
        let again = revoke_cluster_key(&mut view, &cluster(), "bob", "once more").unwrap();
        assert_eq!(again.revoked_by.as_deref(), Some("ada"), "who revoked it first stays on record");

        let key = rotate_cluster_key(&mut view, &cluster(), &next("three", HOUR, false)).unwrap();
        assert_eq!(statuses(&key, 0, &["one", "two", "three"]), [None, None, Some(ClusterKeyStatus::Holds)]);
    }

    #[test]
    fn a_closed_tenant_gets_no_key() {
        for (state, may) in [("leaving", true), ("destroying", false), ("closed", false)] {
            let mut view = books(&first(), state);
            let issued = rotate_cluster_key(&mut view, &cluster(), &next("two", HOUR, false));
            assert_eq!(issued.map_err(code).err().as_deref(), (!may).then_some(KEY_ORPHANED), "{state}");
        }
    }

    /// Returns a ledger with a shared cluster in a region, and its key if there is one.
    fn shared(key: Option<&Value>) -> View {
        let cluster = json!({
            "id": "eu-1", "region": "eu", "provider": "own", "kind": "kubernetes", "tenancy": "shared",
            "backend": "simulated", "models": [],
        });
        let document = |collection: &str, body: Option<&Value>| {
            let key = Key::new(collection, "eu-1");
            let body = body.map(|body| serde_json::to_vec(body).unwrap());
            (key.clone(), body.map(|body| Document { key, version: Sequence(1), body }))
        };
        let known = [document(ClusterKey::COLLECTION, key), document(Cluster::COLLECTION, Some(&cluster))];
        View::new(Timestamp(3_600_000), BTreeMap::from(known))
    }

    #[test]
    fn a_shared_cluster_has_a_key_that_the_platform_creates_and_rotates() {
        let id: ClusterId = "eu-1".parse().unwrap();
        let mut view = shared(None);
        let first = rotate_cluster_key(&mut view, &id, &next("one", HOUR, false)).unwrap();
        assert_eq!((first.version, &first.tenant, first.hash.as_deref()), (1, &None, Some("one")));
        assert!(first.overlapping_key(Timestamp(3_600_000)).is_none(), "none held before");
        assert_eq!(first.scopes, [KeyScope::PushFacts, KeyScope::PullCommands]);

        let mut view = shared(Some(&json!(first)));
        let second = rotate_cluster_key(&mut view, &id, &next("two", HOUR, false)).unwrap();
        let holds = Some(ClusterKeyStatus::Holds);
        assert_eq!(statuses(&second, 0, &["one", "two"]), [holds, holds]);
    }
}
