//! What keeps a tenant apart, and the probes that try to break it.

use crate::platform::{
    CallMetadata, IsolationKind, Manifest, ObjectKind, ObjectRef, Platform, ProbeFinding, Removal,
    at_cluster, capabilities::kubernetes::remove, codes, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Puts up the guards of a workspace: traffic denied by default, its own people only, its own images and nodes only.
///
/// Safe to run twice: three deterministic names, equal objects are left as they are, and each has its own key. Its
/// undo, [`RestoreNetwork`], tolerates that none, some or all of them were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IsolateNetwork {
    /// In which cluster.
    pub cluster: String,
    /// For which tenant.
    pub tenant: String,
    /// For which of its workspaces.
    pub workspace: String,
    /// The groups that may work in it.
    pub groups: Vec<String>,
    /// The registries from which its images may come.
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

/// Takes the guards of a workspace down, the network's last.
///
/// Safe to run twice, and as an undo: absent is success, and what another step made is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreNetwork {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
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

/// The guards with their parts' names, in the order in which they go up.
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

/// Tries to break a tenant's isolation in one way; fails with `isolation.probe_failed` when that succeeds.
///
/// Safe to run twice: it leaves nothing behind. It has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeIsolation {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
    pub workspace: String,
    /// In which way.
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
