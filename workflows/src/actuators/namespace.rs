//! A workspace's namespace.

use super::{Kind, Made, Manifest, Place, Removal, Stamp, at_cluster, kubernetes::remove, workspace_name};
use crate::platform::Platform;
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Makes the namespace of a workspace, with pod security `restricted`.
///
/// Safe to run twice: its name is deterministic and an equal namespace is left as it is. Its undo,
/// [`DeleteNamespace`], tolerates that it never ran, ran half, or found a namespace that was there before.
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
}

impl Action for CreateNamespace {
    type Platform = Platform;
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let name = workspace_name(&self.tenant, &self.workspace)?;
        let manifest = Manifest {
            place: Place::new(&self.cluster, Kind::Namespace, &name),
            tenant: self.tenant.clone(),
            spec: json!({ "labels": self.labels, "podSecurity": "restricted" }),
        };
        let found = on.kubernetes.apply(&manifest, &Stamp::of(self, call)).await?;
        Ok(Made { name, uid: found.uid })
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
    type Platform = Platform;
    type Output = Removal;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let name = workspace_name(&self.tenant, &self.workspace)?;
        let place = Place::new(&self.cluster, Kind::Namespace, &name);
        remove(on.kubernetes.as_ref(), &place, &self.tenant, &Stamp::of(self, call)).await
    }
}
