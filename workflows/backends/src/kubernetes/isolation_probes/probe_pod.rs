//! The pods of a probe: small, restricted, short-lived, and labelled with their step.

use crate::kubernetes::{
    labels::LabelNames,
    objects::{call_history::CallHistory, render::toleration},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use workflows::platform::CallMetadata;

/// The port of the probes' pods.
pub(crate) const PORT: u16 = 8080;
/// The longest life of a probe's pod in seconds, if no call removes it.
const LIVES: u32 = 120;
/// Exit code of a client that did not reach its control.
pub(crate) const NO_CONTROL: i64 = 20;
/// Exit code of a client that never reached the forbidden target. Each of the [`TRIES`] attempts that reached it adds
/// one.
pub(crate) const GOT_THROUGH: i64 = 10;
/// The number of attempts on the forbidden target.
pub(crate) const TRIES: i64 = 3;

/// The task of a probe's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Answers on [`PORT`].
    Answer,
    /// Reaches the control address, then tries the target.
    Reach {
        /// The address that must answer.
        control: String,
        /// The address that must not answer.
        target: String,
    },
    /// Waits to be scheduled on a node of this tenant.
    Stand {
        /// The tenant.
        on_nodes_of: String,
    },
}

/// A pod to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) tenant: String,
    pub(crate) task: Task,
    /// The tenant whose nodes it tolerates.
    pub(crate) tolerates: Option<String>,
    /// Name and uid of the tenant's namespace as its owner. Absent inside that namespace.
    pub(crate) goes_with: Option<(String, String)>,
}

/// Returns the name of a pod: equal for all attempts of a step, and unique among steps.
pub(crate) fn name(stamp: &CallMetadata, role: &str) -> String {
    let digest = Sha256::digest(stamp.key.as_bytes());
    let short = store::hex::encode(digest.get(..8).unwrap_or_default());
    format!("tenure-probe-{short}-{role}")
}

/// Returns the pod, which complies with pod security `restricted`.
pub(crate) fn pod(
    planned: &Planned,
    image: &str,
    kind: &str,
    stamp: &CallMetadata,
    marks: &LabelNames,
) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": planned.name,
            "namespace": planned.namespace,
            "labels": { marks.tenant(): planned.tenant, marks.probe(): kind },
            "annotations": { marks.step(): stamp.step, marks.calls(): CallHistory::default().with(stamp) },
        },
        "spec": {
            "activeDeadlineSeconds": LIVES,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65_534, "runAsGroup": 65_534,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "volumes": [{ "name": "tmp", "emptyDir": { "sizeLimit": "1Mi" } }],
            "containers": [container(&planned.task, image)],
        },
    });
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return pod };
    if let Some(tenant) = &planned.tolerates {
        spec.insert("tolerations".into(), json!([toleration(tenant, marks)]));
    }
    if let Task::Stand { on_nodes_of } = &planned.task {
        spec.insert("nodeSelector".into(), json!({ marks.tenant(): on_nodes_of }));
    }
    if let (Some((name, uid)), Some(Value::Object(metadata))) = (&planned.goes_with, pod.get_mut("metadata"))
    {
        let owner = json!({ "apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid });
        metadata.insert("ownerReferences".into(), json!([owner]));
    }
    pod
}

fn container(task: &Task, image: &str) -> Value {
    let mut container = json!({
        "name": "probe",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script(task)],
        "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
        },
        "resources": {
            "requests": { "cpu": "20m", "memory": "16Mi", "ephemeral-storage": "4Mi" },
            "limits": { "cpu": "100m", "memory": "16Mi", "ephemeral-storage": "4Mi" },
        },
    });
    let Value::Object(fields) = &mut container else { return container };
    match task {
        Task::Answer => {
            let look = ["wget", "-q", "-O", "/dev/null", &format!("http://127.0.0.1:{PORT}/")];
            let ready = json!({ "exec": { "command": look }, "periodSeconds": 1, "timeoutSeconds": 2 });
            fields.insert("readinessProbe".into(), ready);
        }
        Task::Reach { control, target } => {
            let env = json!([{ "name": "CONTROL", "value": control }, { "name": "TARGET", "value": target }]);
            fields.insert("env".into(), env);
        }
        Task::Stand { .. } => {}
    }
    container
}

/// Returns the script for BusyBox. A client without the tools exits with [`NO_CONTROL`], which leaves the probe
/// undecided.
pub(crate) fn script(task: &Task) -> String {
    match task {
        Task::Answer => format!(
            "mkdir -p /tmp/www && echo here >/tmp/www/index.html && exec httpd -f -p {PORT} -h /tmp/www"
        ),
        Task::Reach { .. } => format!(
            "unset http_proxy HTTP_PROXY; i=0; \
             until timeout 2 wget -q -O /dev/null \"http://$CONTROL/\"; do \
             i=$((i+1)); if [ $i -ge 5 ]; then exit {NO_CONTROL}; fi; sleep 1; done; \
             n=0; for i in $(seq {TRIES}); do \
             if timeout 2 wget -q -O /dev/null \"http://$TARGET/\"; then n=$((n+1)); fi; sleep 1; done; \
             exit $(({GOT_THROUGH}+n))"
        ),
        Task::Stand { .. } => "exec sleep 60".to_owned(),
    }
}

/// Formats an address for a URL.
pub(crate) fn address(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{PORT}") } else { format!("{ip}:{PORT}") }
}
