//! One attempt of a probe that needs pods: made afresh, looked at, and asked to go, whatever came of it.
//!
//! Invariant: no finding is read from a pod that an earlier call made, and none is given while a pod of the attempt was not asked to
//! go. What a process leaves behind that dies in between ends by its own deadline, is removed by the next attempt of the step, and goes
//! with the tenant's namespace.

use crate::kubernetes::isolation_probes::probe_pod::{Planned, name, pod};
use crate::kubernetes::{
    client::{
        error::Fault,
        request::{ApiRequest, deadline, escaped},
    },
    cluster::KubernetesCluster,
    labels::{annotation, at, terminating, text, uid},
    objects::call_history::CallHistory,
    pods::{collection, condition, full_name, path},
};
use engine::ActionError;
use serde_json::Value;
use std::{future::Future, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};
use workflows::platform::{CallMetadata, IsolationKind, LOOK_AGAIN, ProbeFinding, codes, workspace_name};

/// How long between two looks at the same pod.
const BETWEEN: Duration = Duration::from_millis(300);
/// What a new namespace answers before its controllers have been there.
const NOT_YET: [&str; 2] = ["status unknown for quota", "error looking up service account"];

/// One attempt, and where it happens.
pub(crate) struct Attempt<'a> {
    pub(crate) on: &'a KubernetesCluster,
    pub(crate) stamp: &'a CallMetadata,
    pub(crate) tenant: &'a str,
    pub(crate) kind: IsolationKind,
    /// The tenant's namespace.
    pub(crate) inside: String,
    /// Until when its pods may take, whatever is in flight; what is left is for their removal.
    work: Instant,
    until: Instant,
    image: &'a str,
}

impl KubernetesCluster {
    /// Tries with running pods, if the operator has named an image for them.
    pub(in crate::kubernetes) async fn probe_with_pods(
        &self,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let Some(image) = &self.target.probe_image else {
            return Err(unsupported(kind, "it needs pods, and no `probe_image` is set for this cluster"));
        };
        if stamp.dry_run {
            return Err(unsupported(kind, "a dry run starts no pods, and a probe without any shows nothing"));
        }
        let attempt = Attempt {
            on: self,
            stamp,
            tenant,
            kind,
            inside: workspace_name(tenant, workspace)?,
            work: Instant::now() + stamp.deadline * 2 / 3,
            until: deadline(stamp),
            image,
        };
        match kind {
            IsolationKind::CrossTenantTraffic => attempt.traffic().await,
            IsolationKind::ForeignPod => attempt.foreign().await,
            IsolationKind::ForeignCredentials
            | IsolationKind::OverQuota
            | IsolationKind::ForeignImage
            | IsolationKind::ForeignKey => Err(unsupported(kind, "it needs no pods")),
        }
    }
}

impl Attempt<'_> {
    /// The namespace of the platform's own pods.
    pub(crate) fn outside(&self) -> &str {
        &self.on.target.probe_namespace
    }

    /// The names of this attempt's pods, as namespace and name.
    pub(crate) fn names(&self, roles: &[(&str, &str)]) -> Vec<(String, String)> {
        roles.iter().map(|(space, role)| ((*space).to_owned(), name(self.stamp, role))).collect()
    }

    /// Tries within the time that there is, from nothing and back to nothing.
    pub(crate) async fn whole(
        &self,
        names: &[(String, String)],
        tried: impl Future<Output = Result<ProbeFinding, ActionError>>,
    ) -> Result<ProbeFinding, ActionError> {
        self.removed(names, self.work).await?;
        let tried = timeout_at(self.work, tried).await;
        let waited = if tried.is_err() { self.standing(names).await } else { String::new() };
        self.removed(names, self.until).await?;
        match tried {
            Ok(finding) => finding,
            Err(_) => {
                let why = format!("its pods did not come so far in the time of one attempt: {waited}");
                Err(self.waiting(&why))
            }
        }
    }

    /// What each pod of these names waits for, by its own record.
    async fn standing(&self, names: &[(String, String)]) -> String {
        let mut said = Vec::new();
        for (namespace, name) in names {
            let path = format!("{}/{}", collection(namespace), escaped(name));
            if let Ok(Some(pod)) = self.on.object(&path, self.until).await {
                said.push(format!("{} ({})", full_name(&pod), standing(&pod)));
            }
        }
        said.join("; ")
    }

    /// The tenant's namespace by name and identity, with which pods elsewhere are to go.
    pub(crate) async fn home(&self) -> Result<(String, String), ActionError> {
        let path = format!("/api/v1/namespaces/{}", escaped(&self.inside));
        match self.on.object(&path, self.until).await? {
            Some(namespace) => Ok((self.inside.clone(), uid(&namespace).to_owned())),
            None => {
                let why = format!("there is no Namespace {}", self.inside);
                Err(ActionError::permanent(codes::OBJECT_MISSING, why))
            }
        }
    }

    /// Makes a pod.
    pub(crate) async fn made(&self, planned: &Planned) -> Result<Value, ActionError> {
        let kind: &str = self.kind.into();
        let body = pod(planned, self.image, kind, self.stamp, &self.on.marks);
        let ask = ApiRequest::post(&collection(&planned.namespace), body).by(&self.on.target.field_manager);
        match self.on.send(&ask, self.until).await {
            Ok(pod) => Ok(pod),
            // The namespace of the probes, which nobody has made.
            Err(Fault::Refused(refusal)) if refusal.is_missing() => {
                let why = format!(
                    "there is no namespace {}: apply the manifest of rights, which makes it, or name another as `probe_namespace`",
                    planned.namespace
                );
                Err(unsupported(self.kind, &why))
            }
            Err(Fault::Refused(refusal)) if NOT_YET.iter().any(|mark| refusal.message.contains(mark)) => {
                Err(ActionError::transient(codes::UNAVAILABLE, refusal.message))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Looks at a pod of this attempt until `so` has something to say of it.
    pub(crate) async fn seen<T>(
        &self,
        pod: &Value,
        so: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, ActionError> {
        loop {
            let live = self.on.object(&path(pod), self.until).await?;
            let live = live.filter(|live| uid(live) == uid(pod) && !terminating(live));
            let Some(live) = live else {
                return Err(self.undecided(&format!("Pod {} was removed by somebody", full_name(pod))));
            };
            if let Some(said) = so(&live) {
                return Ok(said);
            }
            sleep(BETWEEN).await;
        }
    }

    /// Asks every pod of these names to go that this step made, and waits until they are gone, or as long as there is time.
    async fn removed(&self, names: &[(String, String)], until: Instant) -> Result<(), ActionError> {
        let mut left: Vec<String> = names
            .iter()
            .map(|(namespace, name)| format!("{}/{}", collection(namespace), escaped(name)))
            .collect();
        loop {
            let (mut going, mut failed) = (Vec::new(), None);
            // One that cannot be removed keeps none of the others.
            for path in left {
                match self.asked_to_go(&path, until).await {
                    Ok(true) => going.push(path),
                    Ok(false) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            left = going;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() + BETWEEN >= until {
                let message = format!("{} is still ending, as it was asked to", left.join(", "));
                return Err(ActionError { message, ..ActionError::pending(codes::TERMINATING, LOOK_AGAIN) });
            }
            sleep(BETWEEN).await;
        }
    }

    /// Whether there is a pod still; it is asked to go, if it is ours.
    async fn asked_to_go(&self, path: &str, until: Instant) -> Result<bool, ActionError> {
        let Some(live) = self.on.object(path, until).await? else { return Ok(false) };
        if annotation(&live, &self.on.marks.step()) != Some(self.stamp.step.as_str()) {
            let why = format!("Pod {} is there and not of this step: it was left as it is", full_name(&live));
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        CallHistory::of(&live, &self.on.marks.calls())?.check(self.stamp, &full_name(&live))?;
        if !terminating(&live) {
            self.on.delete_pod(&live, None, self.stamp, until).await?;
        }
        Ok(true)
    }

    /// That nothing is known: neither that the guard holds nor that it does not. Tried again.
    pub(crate) fn undecided(&self, why: &str) -> ActionError {
        let kind: &str = self.kind.into();
        ActionError::transient(codes::PROBE_UNDECIDED, format!("probe {kind} decided nothing: {why}"))
    }

    /// The same, where more time may be all that it takes.
    pub(crate) fn waiting(&self, why: &str) -> ActionError {
        let ActionError { message, .. } = self.undecided(why);
        ActionError { message, ..ActionError::pending(codes::PROBE_UNDECIDED, 5 * LOOK_AGAIN) }
    }
}

/// Why a pod does not run, in the words of whoever said so.
pub(crate) fn standing(pod: &Value) -> String {
    let scheduled = condition(pod, "PodScheduled").map(|one| text(one, &["message"])).unwrap_or_default();
    let waits = at(pod, &["status", "containerStatuses"])
        .and_then(|all| all.get(0))
        .and_then(|one| at(one, &["state", "waiting", "reason"]))
        .and_then(Value::as_str);
    let said = [
        text(pod, &["status", "phase"]),
        scheduled,
        waits.unwrap_or_default(),
        text(pod, &["status", "message"]),
    ];
    said.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(", ")
}

pub(crate) fn unsupported(kind: IsolationKind, why: &str) -> ActionError {
    let kind: &str = kind.into();
    ActionError::permanent(codes::UNSUPPORTED, format!("not supported: probe {kind}: {why}"))
}
