//! Attempts to break a tenant's isolation, as far as an API server alone can be asked.
//!
//! Every attempt here is a rehearsal (`dryRun=All`) or a review of access: nothing is left behind and nobody is impersonated. What only
//! running pods can show is tried in [`pods`](super::pods), where there is an image for them.

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

/// What somebody who is not of the tenant tries, as verb and resource.
const TRIED: [(&str, &str); 5] = [
    ("get", "pods"),
    ("create", "pods"),
    ("get", "secrets"),
    ("create", "pods/exec"),
    ("delete", "configmaps"),
];
/// Somebody who is of no tenant.
const STRANGER: (&str, [&str; 2]) = ("tenure-probe", ["tenure-probe", "system:authenticated"]);
/// A registry that no policy allows.
const FOREIGN_IMAGE: &str = "registry.invalid/tenure-probe:1";
/// What a new namespace answers before its controllers have been there.
const NOT_YET: [&str; 2] = ["status unknown for quota", "error looking up service account"];
/// Within this time every API server's admission has heard of a quota that is in force: until then, that a pod is not refused says
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

    /// A stranger may do nothing in the namespace, while the tenant's own group may: else the reviews would tell nothing.
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
            return Ok(found(false, format!("{}: it is not there or binds nobody", at.name())));
        };
        let mut said = Vec::new();
        let mut held = true;
        for (verb, resource) in TRIED {
            let (allowed, why) =
                self.may(STRANGER.0, &STRANGER.1, namespace, (verb, resource), until).await?;
            held &= !allowed;
            said.push(format!("{verb} {resource} by a stranger: {}", answer(allowed, &why)));
        }
        let own = [group, "system:authenticated"];
        let (allowed, why) = self.may("tenure-probe", &own, namespace, ("create", "pods"), until).await?;
        said.push(format!("create pods by {group}: {}", answer(allowed, &why)));
        Ok(found(held && allowed, said.join("; ")))
    }

    /// What the authorisation of the cluster says of somebody, by a `SubjectAccessReview`.
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
            let why =
                format!("review of {verb} {resource} in {namespace}: the answer says neither yes nor no");
            return Err(ActionError::transient(codes::UNREADABLE, why));
        };
        Ok((allowed, text(&review, &["status", "reason"]).to_owned()))
    }

    /// A pod that asks for one GPU more than the quota has is refused by that quota: of whole GPUs, and of each kind of slices that
    /// it limits.
    async fn over_quota(
        &self,
        cluster: &str,
        namespace: &str,
        until: Instant,
    ) -> Result<ProbeFinding, ActionError> {
        let place = ObjectRef::within(cluster, ObjectKind::ResourceQuota, namespace, "tenure");
        let at = self.at(&place, until).await?;
        let Some(quota) = self.get(&at, until).await? else {
            return Ok(found(false, format!("{}: it is not there", at.name())));
        };
        let limits = gpu_limits(&quota, &self.target.gpu_resource);
        if limits.is_empty() {
            let why = format!("{} limits no requests.{}", at.name(), self.target.gpu_resource);
            return Err(unsupported(IsolationKind::OverQuota, &why));
        }
        // Admission goes by the status, which a controller writes some time after the quota was made.
        if limits.iter().any(|(name, hard)| limit(&quota, "status", name) != Some(*hard)) {
            let why =
                format!("{} is not in force yet: its status does not say what its spec does", at.name());
            return Err(ActionError::transient(codes::UNAVAILABLE, why));
        }
        // The image is one that the tenant may run, where that is restricted, so that nothing but the quota refuses.
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

    /// Rehearses a pod that asks for one more of a resource than the quota allows, until the quota's controller has caught up.
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
        let tried = format!("a pod with {more} {gpus} where {hard} are allowed");
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

    /// The first registry that the workspace's admission policy allows, if there is such a policy.
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

    /// A pod with an image from elsewhere is refused by the admission policy, or by the webhook that stands in for it.
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
            return Ok(found(false, format!("{}: it is not there", at.name())));
        }
        let by_policy =
            |message: &str| message.contains("ValidatingAdmissionPolicy") && message.contains(namespace);
        self.rehearsed(namespace, pod, &tried, by_policy, until).await
    }

    /// Rehearses the creation of a pod. Refused by the guard: it holds. Created: it does not. Refused by anything else: who knows.
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

/// A review of what somebody may do, without being them.
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

/// A pod that pod security `restricted` takes, and that asks for as little as it can.
/// The GPUs that a quota limits: whole ones and slices, as containers name them.
fn gpu_limits(quota: &Value, whole: &str) -> Vec<(String, u64)> {
    let hard = value_at(quota, &["spec", "hard"]).and_then(Value::as_object);
    let gpus = hard.into_iter().flatten().filter_map(|(name, _)| {
        let resource = name.strip_prefix("requests.")?;
        let counted = resource == whole || resource.starts_with(SLICE);
        counted.then(|| Some((resource.to_owned(), limit(quota, "spec", resource)?))).flatten()
    });
    gpus.collect()
}

/// A quota's hard limit of a resource, in its `spec` or its `status`.
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
