//! The priority class for pods of one service level. It belongs to no tenant. The first tenant of the level creates it, and it is never deleted.

use crate::{
    platform::{CallMetadata, Manifest, ObjectKind, ObjectRef, Platform},
    tenancy::PriorityClass,
};
use engine::ActionError;
use serde_json::json;

impl PriorityClass {
    /// Creates the priority class if the cluster does not have it.
    ///
    /// Safe to run twice and for many tenants at once: an equal class is left unchanged. It has no undo, because other tenants may use the class by
    /// then. The class is owned by no tenant, so that no offboarding deletes it. Its preemption policy is `Never`: it orders pending pods and evicts
    /// none. Only a reclaim evicts, with notice.
    pub(in crate::platform) async fn ensure_exists(
        &self,
        on: &Platform,
        cluster: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let manifest = Manifest {
            place: ObjectRef::new(cluster, ObjectKind::PriorityClass, &self.name),
            tenant: String::new(),
            spec: json!({ "value": self.value, "preemption": "Never" }),
        };
        on.kubernetes.apply(&manifest, &stamp.for_part("class")).await.map(drop)
    }
}
