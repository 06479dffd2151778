//! The class by which pods of a service level are ranked. It belongs to no tenant: whoever comes first makes it, and nobody
//! takes it away.

use crate::{
    platform::{CallMetadata, Manifest, ObjectKind, ObjectRef, Platform},
    tenancy::PriorityClass,
};
use engine::ActionError;
use serde_json::json;

impl PriorityClass {
    /// Makes the class where there is none.
    ///
    /// Safe to run twice, and at once for many tenants: an equal class is left, whoever made it. It has no undo, since others
    /// may use it by then. It is made in the name of no tenant, so that none takes it along. It ranks who is placed first and
    /// ends nobody's work (`Never`): that takes a reclaim, with its notice.
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
