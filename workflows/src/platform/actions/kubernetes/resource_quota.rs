//! Actions on a workspace's hard limits in Kubernetes: a resource quota for the namespace, and a limit range for its containers. They apply below
//! every scheduler.

use crate::platform::{
    CallMetadata, CreatedObject, Manifest, ObjectKind, ObjectRef, Platform, Removal, at_cluster,
    capabilities::kubernetes::remove, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The name of the resource quota and of the limit range in their namespace.
pub(in crate::platform) const NAME: &str = "tenure";
/// Resources that both containers and hard limits count, by their name in each. GPUs are not included: a container gets none by default, and a
/// maximum in a limit range would become the default request.
const OF_CONTAINERS: [(&str, &str); 2] = [("requests.cpu", "cpu"), ("requests.memory", "memory")];

/// Returns the container resource that a hard limit counts, if the limit range covers it.
pub(in crate::platform) fn of_containers(hard: &str) -> Option<&'static str> {
    OF_CONTAINERS.iter().find(|(limit, _)| *limit == hard).map(|(_, name)| *name)
}

/// Limits for each container of a workspace, by resource name, in whole cores and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containers {
    /// The default request of a container.
    pub request: BTreeMap<String, u64>,
    /// The maximum for each container, for resources that the workspace's hard limits count. A container without limits gets its default request as
    /// its limit, so that it uses no more than the quota counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub max: BTreeMap<String, u64>,
}

impl Containers {
    /// Returns limits with `request` as the default request. No maximum exceeds the hard limits of the workspace.
    #[must_use]
    pub fn within(request: BTreeMap<String, u64>, hard: &BTreeMap<String, u64>) -> Self {
        let most = |(limit, name): &(&str, &str)| Some(((*name).to_owned(), *hard.get(*limit)?));
        Self { request, max: OF_CONTAINERS.iter().filter_map(most).collect() }
    }

    fn spec(&self) -> Value {
        let mut spec = Map::from_iter([("request".to_owned(), json!(self.request))]);
        if !self.max.is_empty() {
            spec.insert("max".to_owned(), json!(self.max));
        }
        Value::Object(spec)
    }
}

/// Limits the total resources of a workspace's namespace, and those of each container in it.
///
/// Safe to run twice: the names are deterministic, equal objects are left unchanged, and each has its own key. Its undo, [`ClearResourceQuota`],
/// tolerates that none, one or both of them exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetResourceQuota {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// The amount for each Kubernetes resource name: `requests.nvidia.com/gpu`, `requests.cpu`.
    pub hard: BTreeMap<String, u64>,
    /// The limits for each container. `None` creates no limit range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<Containers>,
}

impl Action for SetResourceQuota {
    const NAME: &'static str = "SetResourceQuota";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let (stamp, tenant) = (CallMetadata::for_action(self, call), || self.tenant.clone());
        let [quota, range] = places(&self.cluster, &self.tenant, &self.workspace)?;
        let name = quota.full_name();
        let manifest = Manifest { place: quota, tenant: tenant(), spec: json!({ "hard": self.hard }) };
        let found = on.kubernetes.apply(&manifest, &stamp).await?;
        if let Some(containers) = &self.containers {
            let manifest = Manifest { place: range, tenant: tenant(), spec: containers.spec() };
            on.kubernetes.apply(&manifest, &stamp.for_part("range")).await?;
        }
        Ok(CreatedObject { name, uid: found.uid })
    }
}

/// Removes a workspace's hard limits, the limit range first.
///
/// Safe to run twice and as an undo: a missing object is a success, and an object of another step is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClearResourceQuota {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// True if there is a limit range to remove.
    #[serde(default)]
    pub containers: bool,
}

impl Action for ClearResourceQuota {
    const NAME: &'static str = "ClearResourceQuota";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let [quota, range] = places(&self.cluster, &self.tenant, &self.workspace)?;
        let mut seen = Removal::Gone;
        if self.containers {
            seen = remove(on.kubernetes.as_ref(), &range, &self.tenant, &stamp.for_part("range")).await?;
        }
        let removed = remove(on.kubernetes.as_ref(), &quota, &self.tenant, &stamp).await?;
        Ok(if removed == Removal::Gone { seen } else { removed })
    }
}

/// Returns the places of the resource quota and the limit range.
fn places(cluster: &str, tenant: &str, workspace: &str) -> Result<[ObjectRef; 2], ActionError> {
    let namespace = workspace_name(tenant, workspace)?;
    Ok([ObjectKind::ResourceQuota, ObjectKind::LimitRange]
        .map(|kind| ObjectRef::within(cluster, kind, &namespace, NAME)))
}
