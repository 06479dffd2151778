//! Actions on the namespace of a workspace.

use crate::platform::{
    CallMetadata, CreatedObject, Manifest, ObjectKind, ObjectRef, Platform, PriorityClass, Removal,
    at_cluster, capabilities::kubernetes::remove, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Creates the namespace of a workspace, with pod security `restricted`. First creates the priority class of the tenant's service level if the
/// cluster has none.
///
/// Safe to run twice: the name is deterministic, and an equal namespace or class is left unchanged. Its undo, [`DeleteNamespace`], tolerates that it
/// never ran, ran in part, or found an existing namespace. The class stays, because all tenants of the level share it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateNamespace {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// Additional labels of the namespace.
    pub labels: BTreeMap<String, String>,
    /// The priority class for the tenant's pods, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<PriorityClass>,
}

impl Action for CreateNamespace {
    const NAME: &'static str = "CreateNamespace";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let name = workspace_name(&self.tenant, &self.workspace)?;
        let stamp = CallMetadata::for_action(self, call);
        if let Some(class) = &self.priority_class {
            class.ensure_exists(on, &self.cluster, &stamp).await?;
        }
        let manifest = Manifest {
            place: ObjectRef::new(&self.cluster, ObjectKind::Namespace, &name),
            tenant: self.tenant.clone(),
            spec: json!({ "labels": self.labels, "podSecurity": "restricted" }),
        };
        let found = on.kubernetes.apply(&manifest, &stamp).await?;
        Ok(CreatedObject { name, uid: found.uid })
    }
}

/// Deletes the namespace of a workspace and waits until it is gone.
///
/// Safe to run twice: the deletion names the UID that it found, so a later namespace of the same name is not deleted. The undo deletes only the
/// namespace of its own step; any other is left and reported. A deletion step itself has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteNamespace {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
}

impl Action for DeleteNamespace {
    const NAME: &'static str = "DeleteNamespace";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let name = workspace_name(&self.tenant, &self.workspace)?;
        let place = ObjectRef::new(&self.cluster, ObjectKind::Namespace, &name);
        remove(on.kubernetes.as_ref(), &place, &self.tenant, &CallMetadata::for_action(self, call)).await
    }
}
