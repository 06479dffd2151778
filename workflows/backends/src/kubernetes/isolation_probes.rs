//! Probes of a tenant's isolation that need only the API server.
//!
//! Each probe is a dry run (`dryRun=All`) or an access review: nothing is stored and no user is impersonated. Probes
//! that need running pods are in [`pods`](super::pods) and require a probe image.

pub(crate) mod attempt;
pub(crate) mod foreign_pod;
pub(crate) mod probe_pod;
#[cfg(test)]
mod tests;
pub(crate) mod traffic;

use crate::kubernetes::{
    client::{
        error::Fault,
        request::{ApiRequest, deadline},
    },
    cluster::KubernetesCluster,
    labels::{SLICE, at as value_at, text},
    objects::parse::quantity,
};
use engine::ActionError;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use workflows::platform::{
    CallMetadata, IsolationKind, ObjectKind, ObjectRef, ProbeFinding, codes, workspace_name,
};

/// Verbs and resources that a user outside of the tenant tries.
const TRIED: [(&str, &str); 5] = [
    ("get", "pods"),
    ("create", "pods"),
    ("get", "secrets"),
    ("create", "pods/exec"),
    ("delete", "configmaps"),
];
/// A user and groups of no tenant.
const STRANGER: (&str, [&str; 2]) = ("tenure-probe", ["tenure-probe", "system:authenticated"]);
/// A registry that no policy allows.
const FOREIGN_IMAGE: &str = "registry.invalid/tenure-probe:1";
/// Errors of a new namespace before its controllers have processed it.
const NOT_YET: [&str; 2] = ["status unknown for quota", "error looking up service account"];
/// Within this time, the admission of every API server applies a new quota. Before that, an admitted pod proves
/// nothing.
const HEARD: Duration = Duration::from_secs(10);
const BETWEEN: Duration = Duration::from_millis(500);

impl KubernetesCluster {
    pub(super) async fn probe(
        &self,
        cluster: &str,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let (namespace, until) = (workspace_name(tenant, workspace)?, deadline(stamp));
        match kind {
            IsolationKind::ForeignCredentials => self.foreign_credentials(cluster, &namespace, until).await,
            IsolationKind::OverQuota => self.over_quota(cluster, &namespace, until).await,
            IsolationKind::ForeignImage => self.foreign_image(cluster, &namespace, until).await,
            IsolationKind::CrossTenantTraffic | IsolationKind::ForeignPod => {
                self.probe_with_pods(tenant, workspace, kind, stamp).await
            }
            IsolationKind::ForeignKey => Err(unsupported(kind, "keys are probed at the key store")),
        }
    }

    /// A foreign user must be denied everything in the namespace, while the tenant's own group must be allowed. Without
    /// that control, the reviews would prove nothing.
    async fn foreign_credentials(
        &self,
        cluster: &str,
        namespace: &str,
        until: Instant,
    ) -> Result<ProbeFinding, ActionError> {
        let place = ObjectRef::within(cluster, ObjectKind::RoleBinding, namespace, "tenant");
        let at = self.at(&place, until).await?;
        let binding = self.get(&at, until).await?.unwrap_or_default();
        let subjects = binding.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(group) =
            subjects.iter().map(|subject| text(subject, &["name"])).find(|name| !name.is_empty())
        else {
            return Ok(found(false, format!("{}: it does not exist, or has no subjects", at.name())));
        };
        let mut said = Vec::new();
        let mut held = true;
        for (verb, resource) in TRIED {
            let (allowed, why) =
                self.may(STRANGER.0, &STRANGER.1, namespace, (verb, resource), until).await?;
            held &= !allowed;
            said.push(format!("{verb} {resource} by a user outside the tenant: {}", answer(allowed, &why)));
        }
        let own = [group, "system:authenticated"];
        let (allowed, why) = self.may("tenure-probe", &own, namespace, ("create", "pods"), until).await?;
        said.push(format!("create pods by {group}: {}", answer(allowed, &why)));
        Ok(found(held && allowed, said.join("; ")))
    }

    /// Returns the decision of a `SubjectAccessReview`.
    async fn may(
        &self,
        user: &str,
        groups: &[&str],
        namespace: &str,
        (verb, resource): (&str, &str),
        until: Instant,
    ) -> Result<(bool, String), ActionError> {
        let ask = ApiRequest::review(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            review(user, groups, namespace, verb, resource),
        );
        let review = self.send(&ask, until).await?;
        let Some(allowed) = value_at(&review, &["status", "allowed"]).and_then(Value::as_bool) else {
            let why = format!("review of {verb} {resource} in {namespace}: the answer is neither yes nor no");
            return Err(ActionError::transient(codes::UNREADABLE, why));
        };
        Ok((allowed, text(&review, &["status", "reason"]).to_owned()))
    }

    /// Tries a pod that requests one GPU more than the quota, and expects an error from that quota: for whole GPUs and
    /// for each profile of slices that it limits.
    async fn over_quota(
        &self,
        cluster: &str,
        namespace: &str,
        until: Instant,
    ) -> Result<ProbeFinding, ActionError> {
        let place = ObjectRef::within(cluster, ObjectKind::ResourceQuota, namespace, "tenure");
        let at = self.at(&place, until).await?;
        let Some(quota) = self.get(&at, until).await? else {
            return Ok(found(false, format!("{}: it does not exist", at.name())));
        };
        let limits = gpu_limits(&quota, &self.target.gpu_resource);
        if limits.is_empty() {
            let why = format!("{} does not limit requests.{}", at.name(), self.target.gpu_resource);
            return Err(unsupported(IsolationKind::OverQuota, &why));
        }
        // Admission uses the status, which a controller writes some time after the quota's creation.
        if limits.iter().any(|(name, hard)| limit(&quota, "status", name) != Some(*hard)) {
            let why = format!("{} is not in force yet: its status differs from its spec", at.name());
            return Err(ActionError::transient(codes::UNAVAILABLE, why));
        }
        // The image is one that the tenant may run, so that only the quota can reject the pod.
        let allowed = match &self.target.probe_image {
            Some(image) => Some(image.clone()),
            None => self
                .registry(cluster, namespace, until)
                .await?
                .map(|registry| format!("{registry}/tenure-probe:1")),
        };
        let image = allowed.unwrap_or_else(|| FOREIGN_IMAGE.to_owned());
        let (mut held, mut said) = (true, Vec::new());
        for (gpus, hard) in limits {
            let finding = self.one_too_many(namespace, &gpus, hard, &image, until).await?;
            held &= finding.held;
            said.push(finding.transcript);
        }
        Ok(found(held, said.join("; ")))
    }

    /// Tries a pod that requests one unit more than the quota, until the quota is in force.
    async fn one_too_many(
        &self,
        namespace: &str,
        gpus: &str,
        hard: u64,
        image: &str,
        until: Instant,
    ) -> Result<ProbeFinding, ActionError> {
        let more = hard.saturating_add(1);
        let mut pod = pod("tenure-probe-quota", image);
        if let Some(Value::Object(limits)) = pod.pointer_mut("/spec/containers/0/resources/limits") {
            limits.insert(gpus.to_owned(), more.to_string().into());
        }
        let tried = format!("a pod with {more} {gpus}, of which {hard} are allowed,");
        let by_quota = |message: &str| message.contains("exceeded quota: tenure");
        let heard = until.min(Instant::now() + HEARD);
        loop {
            let finding = self.rehearsed(namespace, pod.clone(), &tried, by_quota, until).await?;
            if finding.held || Instant::now() + BETWEEN >= heard {
                return Ok(finding);
            }
            sleep(BETWEEN).await;
        }
    }

    /// Returns the first registry that the workspace's admission policy allows, if there is a policy.
    async fn registry(
        &self,
        cluster: &str,
        name: &str,
        until: Instant,
    ) -> Result<Option<String>, ActionError> {
        let place = ObjectRef::new(cluster, ObjectKind::ValidatingAdmissionPolicy, name);
        let at = match self.at(&place, until).await {
            Ok(at) => at,
            Err(error) if error.code == codes::UNSUPPORTED => return Ok(None),
            Err(error) => return Err(error),
        };
        let policy = self.get(&at, until).await?.map(|policy| self.found(&policy, &at));
        let registry =
            policy.and_then(|policy| policy.spec.pointer("/registries/0")?.as_str().map(str::to_owned));
        Ok(registry)
    }

    /// Tries a pod with a foreign image, and expects an error from the admission policy or from the webhook that
    /// replaces it.
    async fn foreign_image(
        &self,
        cluster: &str,
        namespace: &str,
        until: Instant,
    ) -> Result<ProbeFinding, ActionError> {
        let tried = format!("a pod with image {FOREIGN_IMAGE}");
        let pod = pod("tenure-probe-image", FOREIGN_IMAGE);
        if let Some(webhook) = &self.target.admission_webhook {
            let by_webhook =
                |message: &str| message.contains(&format!("admission webhook \"{webhook}\" denied"));
            return self.rehearsed(namespace, pod, &tried, by_webhook, until).await;
        }
        let place = ObjectRef::new(cluster, ObjectKind::ValidatingAdmissionPolicy, namespace);
        let at = self.at(&place, until).await?;
        if self.get(&at, until).await?.is_none() {
            return Ok(found(false, format!("{}: it does not exist", at.name())));
        }
        let by_policy =
            |message: &str| message.contains("ValidatingAdmissionPolicy") && message.contains(namespace);
        self.rehearsed(namespace, pod, &tried, by_policy, until).await
    }

    /// Tries to create a pod in a dry run. An error from the guard proves isolation, success disproves it, and any
    /// other error leaves the probe undecided.
    async fn rehearsed(
        &self,
        namespace: &str,
        pod: Value,
        tried: &str,
        by_guard: impl Fn(&str) -> bool,
        until: Instant,
    ) -> Result<ProbeFinding, ActionError> {
        let ask = ApiRequest::post(&format!("/api/v1/namespaces/{namespace}/pods"), pod).rehearsed();
        match self.send(&ask, until).await {
            Ok(_) => Ok(found(false, format!("{tried} was not refused"))),
            Err(Fault::Refused(refusal)) if by_guard(&refusal.message) => {
                Ok(found(true, format!("{tried} was refused: {}", refusal.message)))
            }
            Err(Fault::Refused(refusal)) if NOT_YET.iter().any(|mark| refusal.message.contains(mark)) => {
                Err(ActionError::transient(codes::UNAVAILABLE, format!("{tried}: {}", refusal.message)))
            }
            Err(fault) => Err(fault.into()),
        }
    }
}

fn found(held: bool, transcript: String) -> ProbeFinding {
    ProbeFinding { held, transcript }
}

fn answer(allowed: bool, why: &str) -> String {
    let answer = if allowed { "allowed" } else { "refused" };
    if why.is_empty() { answer.to_owned() } else { format!("{answer} ({why})") }
}

fn unsupported(kind: IsolationKind, why: &str) -> ActionError {
    let kind: &str = kind.into();
    ActionError::permanent(codes::UNSUPPORTED, format!("not supported: probe {kind}: {why}"))
}

/// Returns a review of a user's access, without impersonating the user.
fn review(user: &str, groups: &[&str], namespace: &str, verb: &str, resource: &str) -> Value {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": groups,
            "resourceAttributes": {
                "namespace": namespace, "verb": verb, "resource": resource, "subresource": subresource,
            },
        },
    })
}

/// Returns the GPUs that a quota limits: whole ones and slices, by resource name.
fn gpu_limits(quota: &Value, whole: &str) -> Vec<(String, u64)> {
    let hard = value_at(quota, &["spec", "hard"]).and_then(Value::as_object);
    let gpus = hard.into_iter().flatten().filter_map(|(name, _)| {
        let resource = name.strip_prefix("requests.")?;
        let counted = resource == whole || resource.starts_with(SLICE);
        counted.then(|| Some((resource.to_owned(), limit(quota, "spec", resource)?))).flatten()
    });
    gpus.collect()
}

/// Returns a quota's hard limit of a resource from its `spec` or `status`.
fn limit(quota: &Value, part: &str, resource: &str) -> Option<u64> {
    let hard = value_at(quota, &[part, "hard", &format!("requests.{resource}")]);
    hard.and_then(Value::as_str).and_then(quantity)
}

fn pod(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "automountServiceAccountToken": false,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65_534, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "probe",
                "image": image,
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
                "resources": {
                    "requests": { "cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi" },
                    "limits": { "cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi" },
                },
            }],
        },
    })
}
