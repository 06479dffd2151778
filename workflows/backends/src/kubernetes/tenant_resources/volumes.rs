//! Volumes and snapshots of tenants. Their data outlives the namespace of their claim.
//!
//! A `PersistentVolume` has no tenant label: it belongs to the tenant of its claim's namespace. If its reclaim policy
//! is `Delete`, the driver deletes the data after the claim is deleted. This module therefore deletes the claim and
//! never the volume's record, without which the data could not be found again. The same applies to snapshot contents.

use crate::kubernetes::{
    cluster::KubernetesCluster,
    labels::{at, label, text},
    objects::parse::quantity,
    tenant_resources::{
        kinds::{CLAIM, NAMESPACE, SNAPSHOT, SNAPSHOT_CONTENT, VOLUME},
        read::Reader,
    },
};
use engine::ActionError;
use serde_json::Value;
use std::collections::BTreeSet;
use workflows::platform::{CallMetadata, LOOK_AGAIN, codes};

/// Fields of a volume that can contain an object but do not state its source.
const NOT_SOURCES: [&str; 4] = ["capacity", "claimRef", "nodeAffinity", "accessModes"];

/// The kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kubernetes) enum Storage {
    Volume,
    Snapshot,
}

/// The claim of a volume, or the snapshot of a snapshot content.
struct Claim<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl Storage {
    pub(in crate::kubernetes) fn of(word: &str) -> Option<Self> {
        match word {
            VOLUME => Some(Self::Volume),
            SNAPSHOT_CONTENT => Some(Self::Snapshot),
            _ => None,
        }
    }

    fn claim(self, object: &Value) -> Option<Claim<'_>> {
        let field = match self {
            Self::Volume => "claimRef",
            Self::Snapshot => "volumeSnapshotRef",
        };
        let [namespace, name, uid] =
            ["namespace", "name", "uid"].map(|part| text(object, &["spec", field, part]));
        (!namespace.is_empty() && !name.is_empty()).then_some(Claim { namespace, name, uid })
    }

    fn claim_word(self) -> &'static str {
        match self {
            Self::Volume => CLAIM,
            Self::Snapshot => SNAPSHOT,
        }
    }

    fn policy_field(self) -> &'static str {
        match self {
            Self::Volume => "persistentVolumeReclaimPolicy",
            Self::Snapshot => "deletionPolicy",
        }
    }

    /// Returns the driver's id of the data.
    fn handle(self, object: &Value) -> String {
        let csi = match self {
            Self::Volume => at(object, &["spec", "csi"]).map(|csi| text(csi, &["volumeHandle"])),
            Self::Snapshot => Some(match text(object, &["status", "snapshotHandle"]) {
                "" => text(object, &["spec", "source", "snapshotHandle"]),
                handle => handle,
            }),
        };
        let source = || {
            let fields = at(object, &["spec"]).and_then(Value::as_object)?;
            let source = fields
                .iter()
                .find(|(name, value)| value.is_object() && !NOT_SOURCES.contains(&name.as_str()))?;
            Some(format!("{} {}", source.0, source.1))
        };
        csi.map(str::to_owned).or_else(source).unwrap_or_default()
    }

    fn driver(self, object: &Value) -> &str {
        match self {
            Self::Volume => text(object, &["spec", "csi", "driver"]),
            Self::Snapshot => text(object, &["spec", "driver"]),
        }
    }

    /// Returns its properties for the survey.
    pub(in crate::kubernetes) fn spec(self, object: &Value) -> Value {
        let claim = self.claim(object).map(|claim| format!("{}/{}", claim.namespace, claim.name));
        let said = [
            ("reclaimPolicy", text(object, &["spec", self.policy_field()]).to_owned()),
            ("phase", text(object, &["status", "phase"]).to_owned()),
            ("driver", self.driver(object).to_owned()),
            ("volume", self.handle(object)),
            ("claim", claim.unwrap_or_default()),
        ];
        let said = said.into_iter().filter(|(_, value)| !value.is_empty());
        let said = said.map(|(field, value)| (field.to_owned(), value.into()));
        Value::Object(
            said.chain(self.bytes(object).map(|bytes| ("bytes".to_owned(), bytes.into()))).collect(),
        )
    }

    /// Returns the size of the volume, or the restore size of a snapshot. Absent if the cluster does not report it.
    fn bytes(self, object: &Value) -> Option<u64> {
        match self {
            Self::Volume => quantity(text(object, &["spec", "capacity", "storage"])),
            Self::Snapshot => at(object, &["status", "restoreSize"]).and_then(Value::as_u64),
        }
    }
}

/// Returns the tenant of a namespace by its name: `t-acme--prod` belongs to `acme`.
fn by_name(namespace: &str) -> Option<&str> {
    namespace.strip_prefix("t-")?.split_once("--").map(|(tenant, _)| tenant)
}

impl KubernetesCluster {
    /// Returns the tenant of a volume or snapshot: by its own label, by the label of its claim's namespace, or by the
    /// name of a deleted namespace.
    pub(in crate::kubernetes) async fn owner_of(
        &self,
        storage: Storage,
        object: &Value,
        reader: &Reader,
    ) -> Result<String, ActionError> {
        if let Some(tenant) = label(object, &self.marks.tenant()) {
            return Ok(tenant.to_owned());
        }
        let Some(claim) = storage.claim(object) else { return Ok(String::new()) };
        let namespace = reader.core(NAMESPACE, None, claim.namespace).await?;
        let owner = match &namespace {
            Some(namespace) => label(namespace, &self.marks.tenant()),
            None => by_name(claim.namespace),
        };
        Ok(owner.unwrap_or_default().to_owned())
    }

    /// Returns true if a volume or snapshot belongs to this tenant, which has these namespaces.
    pub(in crate::kubernetes) async fn is_stored_for(
        &self,
        tenant: &str,
        namespaces: &BTreeSet<String>,
        storage: Storage,
        object: &Value,
        reader: &Reader,
    ) -> Result<bool, ActionError> {
        let marked = label(object, &self.marks.tenant()).is_some();
        let claim = storage.claim(object);
        let within = claim.as_ref().is_some_and(|claim| namespaces.contains(claim.namespace));
        let named = claim.as_ref().is_some_and(|claim| by_name(claim.namespace) == Some(tenant));
        if !marked && (within || !named) {
            return Ok(within);
        }
        Ok(self.owner_of(storage, object, reader).await? == tenant)
    }

    /// Deletes the claim with this uid, so that the driver deletes the data.
    pub(in crate::kubernetes) async fn discarded(
        &self,
        storage: Storage,
        name: &str,
        object: &Value,
        reader: &Reader,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let (field, volume) = (storage.policy_field(), storage.handle(object));
        let driver = match storage.driver(object) {
            "" => "its driver",
            driver => driver,
        };
        let refused = |why: String| Err(ActionError::permanent(codes::REFUSED, why));
        let policy = text(object, &["spec", field]);
        if policy != "Delete" {
            return refused(format!(
                "{name} has {field} {policy:?}, and would leave its data at {driver} ({volume}): set it to Delete and {driver} deletes them, or delete the data and then the object by hand; then retry"
            ));
        }
        let Some(claim) = storage.claim(object).filter(|claim| !claim.uid.is_empty()) else {
            return refused(format!(
                "{name} was never bound, so that nothing deletes its data at {driver} ({volume}): delete the data and then the object by hand, then retry"
            ));
        };
        if text(object, &["status", "phase"]) == "Failed" {
            let message =
                format!("{name}: {driver} does not delete it: {}", text(object, &["status", "message"]));
            return Err(ActionError { message, ..ActionError::pending(codes::TERMINATING, LOOK_AGAIN) });
        }
        let Some(of) = reader.kind(storage.claim_word()).await? else { return Ok(()) };
        let path = of.path(Some(claim.namespace), claim.name);
        // A different or absent claim means that the claim was deleted and the driver is at work.
        self.deleted_at(&path, claim.uid, "", stamp, reader.until).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_reports_where_its_data_is_and_its_reclaim_policy() {
        let csi = json!({
            "spec": {
                "capacity": { "storage": "1Gi" },
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": { "namespace": "t-acme--prod", "name": "data", "uid": "u" },
                "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1" },
            },
            "status": { "phase": "Bound" },
        });
        let said = Storage::Volume.spec(&csi);
        let wanted = json!({
            "reclaimPolicy": "Retain", "phase": "Bound", "driver": "ebs.csi.aws.com", "volume": "vol-1",
            "claim": "t-acme--prod/data", "bytes": 1_u64 << 30,
        });
        assert_eq!(said, wanted);
        let nfs = json!({ "spec": { "capacity": {}, "nfs": { "path": "/a", "server": "s" } } });
        assert_eq!(Storage::Volume.spec(&nfs), json!({ "volume": r#"nfs {"path":"/a","server":"s"}"# }));
        let snapshot = json!({
            "spec": { "deletionPolicy": "Delete", "driver": "d", "volumeSnapshotRef": { "namespace": "n", "name": "s" } },
            "status": { "snapshotHandle": "snap-1", "restoreSize": 4096 },
        });
        assert_eq!(Storage::Snapshot.spec(&snapshot)["bytes"], 4096);
        assert_eq!(Storage::Snapshot.spec(&snapshot)["volume"], "snap-1");
    }

    #[test]
    fn a_removed_namespace_is_recognised_by_its_name() {
        assert_eq!(by_name("t-acme--prod"), Some("acme"));
        assert_eq!((by_name("t-acme"), by_name("kube-system")), (None, None));
    }
}
