//! Actions that isolate a workspace in a cluster, and probes that try to break the isolation.

use crate::platform::{
    CallMetadata, IsolationKind, Manifest, ObjectKind, ObjectRef, Platform, ProbeFinding, Removal,
    at_cluster, capabilities::kubernetes::remove, codes, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Isolates a workspace: traffic is denied by default, and only its own groups, images and nodes are permitted.
///
/// Safe to run twice: the three names are deterministic, equal objects are left unchanged, and each has its own key. Its undo, [`RestoreNetwork`],
/// tolerates that only some of the objects exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IsolateNetwork {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// The groups with access to the workspace.
    pub groups: Vec<String>,
    /// The registries from which images may be pulled.
    pub registries: Vec<String>,
}

impl Action for IsolateNetwork {
    const NAME: &'static str = "IsolateNetwork";
    type Platform = Platform;
    type Output = Vec<String>;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Vec<String>, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let mut names = Vec::new();
        for (part, place) in guards(&self.cluster, &self.tenant, &self.workspace)? {
            names.push(place.full_name());
            let spec = self.spec(place.kind);
            let manifest = Manifest { place, tenant: self.tenant.clone(), spec };
            on.kubernetes.apply(&manifest, &stamp.for_part(part)).await?;
        }
        Ok(names)
    }
}

impl IsolateNetwork {
    fn spec(&self, kind: ObjectKind) -> Value {
        match kind {
            ObjectKind::NetworkPolicy => {
                json!({ "policyTypes": ["Ingress", "Egress"], "allow": ["same-tenant", "dns"] })
            }
            ObjectKind::RoleBinding => json!({ "role": "edit", "groups": self.groups }),
            ObjectKind::ValidatingAdmissionPolicy => {
                json!({ "registries": self.registries, "tolerations": [self.tenant], "failurePolicy": "Fail" })
            }
            ObjectKind::Namespace
            | ObjectKind::ResourceQuota
            | ObjectKind::LimitRange
            | ObjectKind::PriorityClass
            | ObjectKind::Cohort
            | ObjectKind::ResourceFlavor
            | ObjectKind::ClusterQueue
            | ObjectKind::LocalQueue => json!({}),
        }
    }
}

/// Removes the isolation of a workspace. The network policy is removed last.
///
/// Safe to run twice and as an undo: a missing object is a success, and an object of another step is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreNetwork {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
}

impl Action for RestoreNetwork {
    const NAME: &'static str = "RestoreNetwork";
    type Platform = Platform;
    type Output = Vec<Removal>;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Vec<Removal>, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let mut removed = Vec::new();
        for (part, place) in guards(&self.cluster, &self.tenant, &self.workspace)?.into_iter().rev() {
            removed.push(remove(on.kubernetes.as_ref(), &place, &self.tenant, &stamp.for_part(part)).await?);
        }
        Ok(removed)
    }
}

/// The isolating objects with their part names, in the order of creation.
fn guards(
    cluster: &str,
    tenant: &str,
    workspace: &str,
) -> Result<[(&'static str, ObjectRef); 3], ActionError> {
    let namespace = workspace_name(tenant, workspace)?;
    Ok([
        ("network", ObjectRef::within(cluster, ObjectKind::NetworkPolicy, &namespace, "default-deny")),
        ("people", ObjectRef::within(cluster, ObjectKind::RoleBinding, &namespace, "tenant")),
        ("admission", ObjectRef::new(cluster, ObjectKind::ValidatingAdmissionPolicy, &namespace)),
    ])
}

/// Tries to break a tenant's isolation in one way. Fails with `isolation.probe_failed` if the attempt succeeds.
///
/// Safe to run twice: it leaves nothing behind. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeIsolation {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// The way to test.
    pub kind: IsolationKind,
}

impl Action for ProbeIsolation {
    const NAME: &'static str = "ProbeIsolation";
    type Platform = Platform;
    type Output = ProbeFinding;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<ProbeFinding, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let finding = match self.kind {
            IsolationKind::ForeignKey => on.keys.probe_isolation(&self.tenant, &stamp).await?,
            IsolationKind::ForeignCredentials
            | IsolationKind::CrossTenantTraffic
            | IsolationKind::ForeignPod
            | IsolationKind::OverQuota
            | IsolationKind::ForeignImage => {
                on.kubernetes
                    .probe_isolation(&self.cluster, &self.tenant, &self.workspace, self.kind, &stamp)
                    .await?
            }
        };
        if finding.held {
            return Ok(finding);
        }
        let kind: &str = self.kind.into();
        let why =
            format!("{kind} of tenant {} in cluster {}: {}", self.tenant, self.cluster, finding.transcript);
        Err(ActionError::permanent(codes::PROBE_FAILED, why))
    }
}
