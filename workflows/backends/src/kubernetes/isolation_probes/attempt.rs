//! One attempt of a probe with pods: creates new pods, observes them, and deletes them in any case.
//!
//! Invariant: results are read only from pods of this attempt, and no result is returned before all pods of the attempt
//! are deleted. If the process dies in between, the pods end by their own deadline, are removed by the next attempt of
//! the step, and are deleted with the tenant's namespace.

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

/// The delay between two reads of a pod.
const BETWEEN: Duration = Duration::from_millis(300);
/// Errors of a new namespace before its controllers have processed it.
const NOT_YET: [&str; 2] = ["status unknown for quota", "error looking up service account"];

/// One attempt and its namespaces.
pub(crate) struct Attempt<'a> {
    pub(crate) on: &'a KubernetesCluster,
    pub(crate) stamp: &'a CallMetadata,
    pub(crate) tenant: &'a str,
    pub(crate) kind: IsolationKind,
    /// The tenant's namespace.
    pub(crate) inside: String,
    /// The deadline for observing pods. The remaining time is reserved for their removal.
    work: Instant,
    until: Instant,
    image: &'a str,
}

impl KubernetesCluster {
    /// Runs the probe with pods, if a probe image is configured.
    pub(in crate::kubernetes) async fn probe_with_pods(
        &self,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let Some(image) = &self.target.probe_image else {
            return Err(unsupported(kind, "it needs pods, but no `probe_image` is set for this cluster"));
        };
        if stamp.dry_run {
            return Err(unsupported(kind, "a dry run starts no pods, which this probe needs"));
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
    /// Returns the deadline of the call.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Returns the namespace for pods outside of the tenant.
    pub(crate) fn outside(&self) -> &str {
        &self.on.target.probe_namespace
    }

    /// Returns the pods of this attempt as pairs of namespace and name.
    pub(crate) fn names(&self, roles: &[(&str, &str)]) -> Vec<(String, String)> {
        roles.iter().map(|(space, role)| ((*space).to_owned(), name(self.stamp, role))).collect()
    }

    /// Removes old pods, runs the probe within the available time, and removes its pods.
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
                let why = format!("its pods were not ready within the time of one attempt: {waited}");
                Err(self.waiting(&why))
            }
        }
    }

    /// Describes why the pods are not finished.
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

    /// Returns name and uid of the tenant's namespace, which will own pods in other namespaces.
    pub(crate) async fn home(&self) -> Result<(String, String), ActionError> {
        let path = format!("/api/v1/namespaces/{}", escaped(&self.inside));
        match self.on.object(&path, self.until).await? {
            Some(namespace) => Ok((self.inside.clone(), uid(&namespace).to_owned())),
            None => {
                let why = format!("Namespace {} does not exist", self.inside);
                Err(ActionError::permanent(codes::OBJECT_MISSING, why))
            }
        }
    }

    /// Creates a pod.
    pub(crate) async fn made(&self, planned: &Planned) -> Result<Value, ActionError> {
        let kind: &str = self.kind.into();
        let body = pod(planned, self.image, kind, self.stamp, &self.on.marks);
        let ask = ApiRequest::post(&collection(&planned.namespace), body).by(&self.on.target.field_manager);
        match self.on.send(&ask, self.until).await {
            Ok(pod) => Ok(pod),
            // The probe namespace does not exist.
            Err(Fault::Refused(refusal)) if refusal.is_missing() => {
                let why = format!(
                    "namespace {} does not exist: apply the RBAC manifest, which creates it, or set another `probe_namespace`",
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

    /// Reads a pod of this attempt until `so` returns a value.
    pub(crate) async fn seen<T>(
        &self,
        pod: &Value,
        so: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, ActionError> {
        loop {
            let live = self.on.object(&path(pod), self.until).await?;
            let live = live.filter(|live| uid(live) == uid(pod) && !terminating(live));
            let Some(live) = live else {
                return Err(self.undecided(&format!("Pod {} was removed by another client", full_name(pod))));
            };
            if let Some(said) = so(&live) {
                return Ok(said);
            }
            sleep(BETWEEN).await;
        }
    }

    /// Deletes the pods with these names that this step created, and waits until they are gone or the time is up.
    async fn removed(&self, names: &[(String, String)], until: Instant) -> Result<(), ActionError> {
        let mut left: Vec<String> = names
            .iter()
            .map(|(namespace, name)| format!("{}/{}", collection(namespace), escaped(name)))
            .collect();
        loop {
            let (mut going, mut failed) = (Vec::new(), None);
            // A failed deletion does not prevent the others.
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
                let message = format!("{} was deleted, and is still ending", left.join(", "));
                return Err(ActionError { message, ..ActionError::pending(codes::TERMINATING, LOOK_AGAIN) });
            }
            sleep(BETWEEN).await;
        }
    }

    /// Deletes the pod if this step created it. Returns true if it still exists.
    async fn asked_to_go(&self, path: &str, until: Instant) -> Result<bool, ActionError> {
        let Some(live) = self.on.object(path, until).await? else { return Ok(false) };
        if annotation(&live, &self.on.marks.step()) != Some(self.stamp.step.as_str()) {
            let why = format!(
                "Pod {} exists, but was not created by this step, so it was not changed",
                full_name(&live)
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        CallHistory::of(&live, &self.on.marks.calls())?.check(self.stamp, &full_name(&live))?;
        if !terminating(&live) {
            self.on.delete_pod(&live, None, self.stamp, until).await?;
        }
        Ok(true)
    }

    /// Returns the error of a probe without a result. It is retried.
    pub(crate) fn undecided(&self, why: &str) -> ActionError {
        let kind: &str = self.kind.into();
        ActionError::transient(codes::PROBE_UNDECIDED, format!("probe {kind} has no result: {why}"))
    }

    /// Returns the same error as pending, for a probe that may only need more time.
    pub(crate) fn waiting(&self, why: &str) -> ActionError {
        let ActionError { message, .. } = self.undecided(why);
        ActionError { message, ..ActionError::pending(codes::PROBE_UNDECIDED, 5 * LOOK_AGAIN) }
    }
}

/// Returns why a pod does not run, from its status.
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
