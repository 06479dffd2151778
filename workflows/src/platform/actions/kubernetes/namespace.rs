//! A workspace's namespace.

use crate::platform::{
    CallMetadata, CreatedObject, Manifest, ObjectKind, ObjectRef, Platform, PriorityClass, Removal,
    at_cluster, capabilities::kubernetes::remove, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Makes the namespace of a workspace, with pod security `restricted`, and before it the priority class of the tenant's service
/// level, where the cluster has none.
///
/// Safe to run twice: its name is deterministic and an equal namespace is left as it is; so is an equal class. Its undo,
/// [`DeleteNamespace`], tolerates that it never ran, ran half, or found a namespace that was there before. The class stays, since
/// it is for all tenants of the level.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateNamespace {
    /// In which cluster.
    pub cluster: String,
    /// For which tenant.
    pub tenant: String,
    /// For which of its workspaces.
    pub workspace: String,
    /// Labels beyond our own.
    pub labels: BTreeMap<String, String>,
    /// The class by which the tenant's pods may be ranked, if there is to be one.
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
/// Safe to run twice: the deletion names the identity it found, so a namespace made since is not taken. As an undo it
/// takes only what its own step made; any other is left and reported. Itself it is not undone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteNamespace {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
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
