//! Actions on a tenant's Kueue objects: cohort, flavors and queues.
//!
//! Parents are created before children (cohort, flavor, queue) and deleted after them.

use crate::platform::{
    CallMetadata, CreatedObject, FlavorQuota, Manifest, ObjectKind, ObjectRef, Platform, Removal, at_cluster,
    capabilities::kubernetes::remove, flavor_name, tenant_name, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Creates the cohort in which a tenant's queues lend to each other.
///
/// Safe to run twice: the name is deterministic, and an equal cohort is left unchanged. Its undo, [`DeleteCohort`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateCohort {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// A record of the quotas of its queues, by workspace and resource (`research/gpu/H100`). Kueue sums up the queues itself.
    #[serde(default)]
    pub quotas: BTreeMap<String, u64>,
    /// The GPUs that the tenant bought. The part that no queue has as its quota is the cohort's own quota, from which every queue can borrow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bought: Vec<BoughtGpus>,
}

/// The bought GPUs of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoughtGpus {
    /// The resource, as in the record of quotas (`gpu/H100`).
    pub resource: String,
    /// The GPU model.
    pub model: String,
    /// The profile of their slices; whole GPUs when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The number of GPUs or slices.
    pub amount: u64,
}

impl CreateCohort {
    fn spec(&self) -> Result<Value, ActionError> {
        let mut spec = json!({ "quotas": self.quotas });
        let mut bought = Vec::new();
        for one in &self.bought {
            let flavor = flavor_name(&self.tenant, &one.model)?;
            let mut fields = json!({ "resource": one.resource, "flavor": flavor, "amount": one.amount });
            if let (Some(profile), Value::Object(fields)) = (&one.profile, &mut fields) {
                fields.insert("sliceProfile".into(), profile.clone().into());
            }
            bought.push(fields);
        }
        if let (false, Value::Object(spec)) = (bought.is_empty(), &mut spec) {
            spec.insert("bought".into(), bought.into());
        }
        Ok(spec)
    }
}

impl Action for CreateCohort {
    const NAME: &'static str = "CreateCohort";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let name = tenant_name(&self.tenant)?;
        make(
            on,
            ObjectRef::new(&self.cluster, ObjectKind::Cohort, &name),
            &self.tenant,
            self.spec()?,
            &CallMetadata::for_action(self, call),
        )
        .await
    }
}

/// Deletes a tenant's cohort.
///
/// Safe to run twice and as an undo: a missing object is a success, and an object of another step is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteCohort {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
}

impl Action for DeleteCohort {
    const NAME: &'static str = "DeleteCohort";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let place = ObjectRef::new(&self.cluster, ObjectKind::Cohort, &tenant_name(&self.tenant)?);
        remove(on.kubernetes.as_ref(), &place, &self.tenant, &CallMetadata::for_action(self, call)).await
    }
}

/// Creates the flavor for a tenant's own nodes of one GPU model.
///
/// Safe to run twice: the name is deterministic, and an equal flavor is left unchanged. Its undo, [`DeleteFlavor`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateFlavor {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The GPU model.
    pub model: String,
}

impl Action for CreateFlavor {
    const NAME: &'static str = "CreateFlavor";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let place = ObjectRef::new(
            &self.cluster,
            ObjectKind::ResourceFlavor,
            &flavor_name(&self.tenant, &self.model)?,
        );
        let spec = json!({ "nodeLabels": { "tenant": self.tenant, "gpu": self.model } });
        make(on, place, &self.tenant, spec, &CallMetadata::for_action(self, call)).await
    }
}

/// Deletes the flavor of a tenant's nodes of one GPU model.
///
/// Safe to run twice and as an undo: a missing object is a success, and an object of another step is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteFlavor {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The GPU model.
    pub model: String,
}

impl Action for DeleteFlavor {
    const NAME: &'static str = "DeleteFlavor";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let place = ObjectRef::new(
            &self.cluster,
            ObjectKind::ResourceFlavor,
            &flavor_name(&self.tenant, &self.model)?,
        );
        remove(on.kubernetes.as_ref(), &place, &self.tenant, &CallMetadata::for_action(self, call)).await
    }
}

/// Creates a workspace's cluster queue, and its local queue in the workspace's namespace.
///
/// Safe to run twice: both names are deterministic, equal objects are left unchanged, and each has its own key. Its undo, [`DeleteQueue`], tolerates
/// that it never ran, or created only the cluster queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateQueue {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// The quota for each GPU model.
    pub quotas: Vec<FlavorQuota>,
    /// If true, the queue is created on hold, until [`OpenQueue`] opens it.
    pub hold: bool,
}

impl Action for CreateQueue {
    const NAME: &'static str = "CreateQueue";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let (queue, entrance) = queue_places(&self.cluster, &self.tenant, &self.workspace)?;
        let mut groups = Vec::new();
        for quota in &self.quotas {
            groups.push(group(&flavor_name(&self.tenant, &quota.model)?, quota));
        }
        let spec = json!({
            "cohort": tenant_name(&self.tenant)?,
            "resourceGroups": groups,
            "stopPolicy": if self.hold { HOLD } else { OPEN },
        });
        let target = json!({ "clusterQueue": queue.name });
        let stamp = CallMetadata::for_action(self, call);
        let made = make(on, queue, &self.tenant, spec, &stamp.for_part("queue")).await?;
        make(on, entrance, &self.tenant, target, &stamp.for_part("entrance")).await?;
        Ok(made)
    }
}

/// Deletes a workspace's queues, the local queue first.
///
/// Safe to run twice and as an undo: missing queues are a success, and queues of another step are left and reported. While workloads hold quota, the
/// queue stays and this action is pending.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteQueue {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
}

impl Action for DeleteQueue {
    const NAME: &'static str = "DeleteQueue";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let (queue, entrance) = queue_places(&self.cluster, &self.tenant, &self.workspace)?;
        let stamp = CallMetadata::for_action(self, call);
        remove(on.kubernetes.as_ref(), &entrance, &self.tenant, &stamp.for_part("entrance")).await?;
        remove(on.kubernetes.as_ref(), &queue, &self.tenant, &stamp.for_part("queue")).await
    }
}

/// Lets a workspace's queue admit workloads.
///
/// Safe to run twice: it sets one field to a fixed value. The undo, [`HoldQueue`], resets the field. It tolerates a queue that was never opened or is
/// gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenQueue {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
}

impl Action for OpenQueue {
    const NAME: &'static str = "OpenQueue";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let (queue, _) = queue_places(&self.cluster, &self.tenant, &self.workspace)?;
        let name = queue.name.clone();
        let change =
            Manifest { place: queue, tenant: self.tenant.clone(), spec: json!({ "stopPolicy": OPEN }) };
        let found = on.kubernetes.patch(&change, &CallMetadata::for_action(self, call)).await?;
        Ok(CreatedObject { name, uid: found.uid })
    }
}

/// Stops a workspace's queue from admitting new workloads. Running workloads continue.
///
/// Safe to run twice: it sets one field to a fixed value. As an undo it tolerates a queue that was never opened, is gone, or belongs to another
/// tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldQueue {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
}

impl Action for HoldQueue {
    const NAME: &'static str = "HoldQueue";
    type Platform = Platform;
    type Output = Option<CreatedObject>;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Option<CreatedObject>, ActionError> {
        let (queue, _) = queue_places(&self.cluster, &self.tenant, &self.workspace)?;
        let stamp = CallMetadata::for_action(self, call);
        let found = on.kubernetes.read(&queue, &stamp).await?;
        let Some(found) = found.filter(|found| found.tenant == self.tenant) else { return Ok(None) };
        let name = queue.name.clone();
        let change =
            Manifest { place: queue, tenant: self.tenant.clone(), spec: json!({ "stopPolicy": HOLD }) };
        on.kubernetes.patch(&change, &stamp).await?;
        Ok(Some(CreatedObject { name, uid: found.uid }))
    }
}

const HOLD: &str = "Hold";
const OPEN: &str = "None";

/// Returns the cluster queue and the local queue of a workspace.
fn queue_places(cluster: &str, tenant: &str, workspace: &str) -> Result<(ObjectRef, ObjectRef), ActionError> {
    let name = workspace_name(tenant, workspace)?;
    Ok((
        ObjectRef::new(cluster, ObjectKind::ClusterQueue, &name),
        ObjectRef::within(cluster, ObjectKind::LocalQueue, &name, "gpus"),
    ))
}

async fn make(
    on: &Platform,
    place: ObjectRef,
    tenant: &str,
    spec: Value,
    stamp: &CallMetadata,
) -> Result<CreatedObject, ActionError> {
    let name = place.name.clone();
    let found = on.kubernetes.apply(&Manifest { place, tenant: tenant.to_owned(), spec }, stamp).await?;
    Ok(CreatedObject { name, uid: found.uid })
}

/// Returns the resource group of a flavor, as [`CreateQueue`](crate::platform::CreateQueue) writes it.
pub(in crate::platform) fn group(flavor: &str, quota: &FlavorQuota) -> Value {
    let mut group = json!({
        "flavor": flavor,
        "nominalQuota": quota.nominal,
        "borrowingLimit": quota.borrowing_limit,
        "lendingLimit": quota.lending_limit,
    });
    if let (Value::Object(fields), Some(profile)) = (&mut group, &quota.profile) {
        fields.insert("sliceProfile".into(), profile.clone().into());
    }
    group
}
