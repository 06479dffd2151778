//! A workspace's hard limits, below every scheduler: of the namespace in all, and of each container in it.

use crate::platform::{
    CallMetadata, CreatedObject, Manifest, ObjectKind, ObjectRef, Platform, Removal, at_cluster,
    capabilities::kubernetes::remove, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The name of quota and limit range within their namespace.
pub(in crate::platform) const NAME: &str = "tenure";
/// What containers ask for and hard limits count, by its name in each. GPUs are not among them: nobody gets one without asking,
/// and a maximum of them would be taken for what every container asks for.
const OF_CONTAINERS: [(&str, &str); 2] = [("requests.cpu", "cpu"), ("requests.memory", "memory")];

/// What containers call the resource of a hard limit, if they ask for it by themselves.
pub(in crate::platform) fn of_containers(hard: &str) -> Option<&'static str> {
    OF_CONTAINERS.iter().find(|(limit, _)| *limit == hard).map(|(_, name)| *name)
}

/// What each container of a workspace may have, by resource as containers name it, in whole cores and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containers {
    /// What one is taken to ask for that asks for nothing.
    pub request: BTreeMap<String, u64>,
    /// The most that one may have, where the workspace's hard limits count the resource. One that says nothing is held to what
    /// it is taken to ask for, so that it uses no more than it is counted for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub max: BTreeMap<String, u64>,
}

impl Containers {
    /// Containers that ask for `request` where they say nothing, none larger than the workspace itself.
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

/// Limits what a workspace's namespace may hold at once, and what each container in it may have.
///
/// Safe to run twice: deterministic names, an equal quota and an equal limit range are left as they are, and each has its own key.
/// Its undo, [`ClearResourceQuota`], tolerates that none, one or both of them were made.
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
    /// What each container may have; `None` for no limit range.
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

/// Removes a workspace's hard limits, those of its containers first.
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
    /// Whether its containers were limited too.
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

/// Where the quota stands, and the limit range.
fn places(cluster: &str, tenant: &str, workspace: &str) -> Result<[ObjectRef; 2], ActionError> {
    let namespace = workspace_name(tenant, workspace)?;
    Ok([ObjectKind::ResourceQuota, ObjectKind::LimitRange]
        .map(|kind| ObjectRef::within(cluster, kind, &namespace, NAME)))
}
