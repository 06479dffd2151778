//! Finds the API version of each kind.
//!
//! Core kinds have fixed versions. Kinds that can be absent or change their version (Kueue, admission policies) are
//! discovered once, and again when their path is no longer served.

use crate::kubernetes::{
    client::{
        error::Fault,
        request::{ApiRequest, escaped},
    },
    cluster::KubernetesCluster,
    labels::{at, terminating, text},
};
use engine::ActionError;
use serde_json::Value;
use std::sync::PoisonError;
use tokio::time::Instant;
use workflows::platform::{ObjectKind, ObjectRef, codes};

/// A kind of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kubernetes) struct Resource {
    group: &'static str,
    /// The version, unless it is discovered.
    version: Option<&'static str>,
    plural: &'static str,
    pub(in crate::kubernetes) kind: &'static str,
    /// The remedy if the kind is not served.
    remedy: &'static str,
}

const KUEUE: &str = "install Kueue";
const POLICIES: &str = "admission policies need Kubernetes 1.30, or 1.28 with their beta API enabled";
const BUILT_IN: &str = "this is not a Kubernetes API server";
const ADMISSION: &str = "admissionregistration.k8s.io";
const KUEUE_GROUP: &str = "kueue.x-k8s.io";

/// The binding that enforces an admission policy.
pub(in crate::kubernetes) const BINDING: Resource = Resource {
    group: ADMISSION,
    version: None,
    plural: "validatingadmissionpolicybindings",
    kind: "ValidatingAdmissionPolicyBinding",
    remedy: POLICIES,
};

/// Kueue's workload.
pub(in crate::kubernetes) const WORKLOAD: Resource =
    Resource { group: KUEUE_GROUP, version: None, plural: "workloads", kind: "Workload", remedy: KUEUE };

/// The route that distributes requests.
pub(in crate::kubernetes) const ROUTE: Resource = Resource {
    group: "gateway.networking.k8s.io",
    version: None,
    plural: "httproutes",
    kind: "HTTPRoute",
    remedy: "install the Gateway API",
};

/// The path of custom resource definitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The subresource that evicts pods.
const EVICTION: &str = "pods/eviction";

impl Resource {
    /// Returns the path of one object. All parts are already escaped.
    pub(in crate::kubernetes) fn path(&self, version: &str, namespace: &str, name: &str) -> String {
        format!("/apis/{}/{version}/namespaces/{namespace}/{}/{name}", self.group, self.plural)
    }
}

impl Resource {
    /// Returns the path of its objects in all namespaces.
    pub(in crate::kubernetes) fn everywhere(&self, version: &str) -> String {
        format!("/apis/{}/{version}/{}", self.group, self.plural)
    }
}

pub(in crate::kubernetes) fn resource(kind: ObjectKind) -> Resource {
    let built_in =
        |group, plural, kind| Resource { group, version: Some("v1"), plural, kind, remedy: BUILT_IN };
    let kueue = |plural, kind| Resource { group: KUEUE_GROUP, version: None, plural, kind, remedy: KUEUE };
    match kind {
        ObjectKind::Namespace => built_in("", "namespaces", "Namespace"),
        ObjectKind::ResourceQuota => built_in("", "resourcequotas", "ResourceQuota"),
        ObjectKind::LimitRange => built_in("", "limitranges", "LimitRange"),
        ObjectKind::PriorityClass => built_in("scheduling.k8s.io", "priorityclasses", "PriorityClass"),
        ObjectKind::NetworkPolicy => built_in("networking.k8s.io", "networkpolicies", "NetworkPolicy"),
        ObjectKind::RoleBinding => built_in("rbac.authorization.k8s.io", "rolebindings", "RoleBinding"),
        ObjectKind::ValidatingAdmissionPolicy => Resource {
            group: ADMISSION,
            version: None,
            plural: "validatingadmissionpolicies",
            kind: "ValidatingAdmissionPolicy",
            remedy: POLICIES,
        },
        ObjectKind::Cohort => kueue("cohorts", "Cohort"),
        ObjectKind::ResourceFlavor => kueue("resourceflavors", "ResourceFlavor"),
        ObjectKind::ClusterQueue => kueue("clusterqueues", "ClusterQueue"),
        ObjectKind::LocalQueue => kueue("localqueues", "LocalQueue"),
    }
}

/// The location of one object, which may not exist.
#[derive(Clone, Debug)]
pub(in crate::kubernetes) struct At {
    pub(in crate::kubernetes) place: ObjectRef,
    pub(in crate::kubernetes) resource: Resource,
    /// The served version.
    pub(in crate::kubernetes) version: String,
}

impl At {
    /// Returns `v1` or, with a group, a value like `kueue.x-k8s.io/v1beta1`.
    pub(in crate::kubernetes) fn api_version(&self) -> String {
        match self.resource.group {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns the path of all objects of its kind in its namespace.
    pub(in crate::kubernetes) fn collection(&self) -> String {
        let root = if self.resource.group.is_empty() { "/api" } else { "/apis" };
        let within = match &self.place.namespace {
            Some(namespace) => format!("/namespaces/{}", escaped(namespace)),
            None => String::new(),
        };
        format!("{root}/{}{within}/{}", self.api_version(), self.resource.plural)
    }

    /// Returns the object's path.
    pub(in crate::kubernetes) fn path(&self) -> String {
        format!("{}/{}", self.collection(), escaped(&self.place.name))
    }

    /// Returns kind and name, such as `Namespace t-acme--default`.
    pub(in crate::kubernetes) fn name(&self) -> String {
        format!("{} {}", self.resource.kind, self.place.full_name())
    }
}

impl KubernetesCluster {
    /// Returns the location of the object.
    pub(in crate::kubernetes) async fn at(
        &self,
        place: &ObjectRef,
        until: Instant,
    ) -> Result<At, ActionError> {
        self.at_as(resource(place.kind), place, until).await
    }

    /// Returns the location of an object of this resource, with the name of `place`.
    pub(in crate::kubernetes) async fn at_as(
        &self,
        resource: Resource,
        place: &ObjectRef,
        until: Instant,
    ) -> Result<At, ActionError> {
        let version = match resource.version {
            Some(version) => version.to_owned(),
            None => self.served(resource, until).await?,
        };
        Ok(At { place: place.clone(), resource, version })
    }

    /// Forgets discovered versions, for example after an upgrade of the cluster.
    pub(in crate::kubernetes) fn forget_versions(&self) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the served version of a kind, or `None` if it is not served.
    pub(in crate::kubernetes) async fn version_of(
        &self,
        resource: Resource,
        until: Instant,
    ) -> Result<Option<String>, ActionError> {
        match self.served(resource, until).await {
            Ok(version) => Ok(Some(version)),
            Err(error) if error.code == codes::UNSUPPORTED => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the version of the `policy` group for evictions, which can be older than that of disruption budgets.
    pub(in crate::kubernetes) async fn eviction_version(
        &self,
        until: Instant,
    ) -> Result<String, ActionError> {
        let known = self.served.lock().unwrap_or_else(PoisonError::into_inner).get(EVICTION).cloned();
        if let Some(version) = known {
            return Ok(version);
        }
        let listed = self.send(&ApiRequest::get("/api/v1"), until).await?;
        let all = listed.get("resources").and_then(Value::as_array).into_iter().flatten();
        let version = all
            .filter(|one| one.get("name").and_then(Value::as_str) == Some(EVICTION))
            .find_map(|one| one.get("version")?.as_str());
        let Some(version) = version else {
            let why = format!("not supported: the cluster does not serve {EVICTION}; {BUILT_IN}");
            return Err(ActionError::permanent(codes::UNSUPPORTED, why));
        };
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.insert(EVICTION, version.to_owned());
        Ok(version.to_owned())
    }

    async fn served(&self, resource: Resource, until: Instant) -> Result<String, ActionError> {
        let known = self.served.lock().unwrap_or_else(PoisonError::into_inner).get(resource.plural).cloned();
        if let Some(version) = known {
            return Ok(version);
        }
        let group = match self.send(&ApiRequest::get(&format!("/apis/{}", resource.group)), until).await {
            Ok(group) => group,
            Err(Fault::Refused(refusal)) if refusal.is_unserved() || refusal.is_missing() => {
                return Err(self.unserved(resource, "no version of its group", until).await);
            }
            Err(fault) => return Err(fault.into()),
        };
        let versions = versions(&group);
        for version in &versions {
            let listed =
                self.send(&ApiRequest::get(&format!("/apis/{}/{version}", resource.group)), until).await;
            let listed = match listed {
                Ok(listed) => listed,
                Err(Fault::Refused(refusal)) if refusal.status == 404 => continue,
                Err(fault) => return Err(fault.into()),
            };
            if names(&listed).any(|name| name == resource.plural) {
                let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
                served.insert(resource.plural, version.clone());
                return Ok(version.clone());
            }
        }
        Err(self.unserved(resource, &versions.join(", "), until).await)
    }

    /// Returns the error for a kind that the server does not list. If the kind is defined, the error is transient: a
    /// server omits it for a short time after its start. Without the right to read definitions, the list is trusted.
    async fn unserved(&self, resource: Resource, seen: &str, until: Instant) -> ActionError {
        let Resource { group, plural, remedy, .. } = resource;
        let name = format!("{plural}.{group}");
        let ask = ApiRequest::get(DEFINITIONS).with("fieldSelector", &format!("metadata.name={name}"));
        let listed = self.send(&ask, until).await.unwrap_or_default();
        let mut defined = listed.get("items").and_then(Value::as_array).into_iter().flatten();
        if defined.any(|one| text(one, &["metadata", "name"]) == name && is_served(one)) {
            let why = format!("{name} are defined and not served yet (the group has {seen})");
            return ActionError::transient(codes::UNAVAILABLE, why);
        }
        let why = format!("not supported: the cluster does not serve {name} (it has {seen}); {remedy}");
        ActionError::permanent(codes::UNSUPPORTED, why)
    }
}

/// Returns true if the server has accepted the definition and will serve it.
pub(in crate::kubernetes) fn is_served(definition: &Value) -> bool {
    let all = |path: &[&str]| at(definition, path).and_then(Value::as_array).cloned().unwrap_or_default();
    let established = all(&["status", "conditions"])
        .iter()
        .any(|one| text(one, &["type"]) == "Established" && text(one, &["status"]) == "True");
    let versions = all(&["spec", "versions"]);
    let served =
        versions.iter().any(|version| at(version, &["served"]).and_then(Value::as_bool) == Some(true));
    established && served && !terminating(definition)
}

/// Returns the versions of a group, the preferred one first.
pub(in crate::kubernetes) fn versions(group: &Value) -> Vec<String> {
    let version = |of: &Value| of.get("version").and_then(Value::as_str).map(str::to_owned);
    let preferred = group.get("preferredVersion").and_then(version);
    let all = group.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let others = all.iter().filter_map(version).filter(|one| preferred.as_ref() != Some(one));
    preferred.clone().into_iter().chain(others).collect()
}

fn names(listed: &Value) -> impl Iterator<Item = &str> {
    let all = listed.get("resources").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(|one| one.get("name")?.as_str())
}
