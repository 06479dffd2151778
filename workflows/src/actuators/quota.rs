//! A workspace's hard limits, below every scheduler.

use super::{Kind, Made, Manifest, Place, Removal, Stamp, at_cluster, kubernetes::remove, workspace_name};
use crate::platform::Platform;
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// The quota's name within its namespace.
pub(super) const NAME: &str = "tenure";

/// Limits what a workspace's namespace may hold at once.
///
/// Safe to run twice: deterministic name, an equal quota is left as it is. Its undo, [`ClearResourceQuota`], tolerates
/// that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetResourceQuota {
    /// In which cluster.
    pub cluster: String,
    /// For which tenant.
    pub tenant: String,
    /// For which of its workspaces.
    pub workspace: String,
    /// Amount by resource as Kubernetes names it: `requests.nvidia.com/gpu`, `requests.cpu`.
    pub hard: BTreeMap<String, u64>,
}

impl Action for SetResourceQuota {
    type Platform = Platform;
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let place = place(&self.cluster, &self.tenant, &self.workspace)?;
        let name = place.full_name();
        let manifest = Manifest { place, tenant: self.tenant.clone(), spec: json!({ "hard": self.hard }) };
        let found = on.kubernetes.apply(&manifest, &Stamp::of(self, call)).await?;
        Ok(Made { name, uid: found.uid })
    }
}

/// Removes a workspace's hard limits.
///
/// Safe to run twice, and as an undo: absent is success, and what another step made is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClearResourceQuota {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
    pub workspace: String,
}

impl Action for ClearResourceQuota {
    type Platform = Platform;
    type Output = Removal;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let place = place(&self.cluster, &self.tenant, &self.workspace)?;
        remove(on.kubernetes.as_ref(), &place, &self.tenant, &Stamp::of(self, call)).await
    }
}

fn place(cluster: &str, tenant: &str, workspace: &str) -> Result<Place, ActionError> {
    let namespace = workspace_name(tenant, workspace)?;
    Ok(Place::within(cluster, Kind::ResourceQuota, &namespace, NAME))
}
