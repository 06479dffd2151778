//! Settings of a Kubernetes cluster.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// A Kubernetes cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesTarget {
    /// The kubeconfig file with address and credentials. Default: none; then the service account of Tenure's own pod is
    /// used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig. Default: its current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The kubeconfig file of the verifier, in its current context: another account of the same cluster that needs only
    /// the right to list. Default: none; then removals cannot be verified and requests for it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_kubeconfig: Option<PathBuf>,
    /// Kinds that surveys do not list, such as `secrets` or `widgets.example.org`. Default `secrets`, because the right
    /// to list them includes the right to read them. Those in a tenant's namespaces are deleted with the namespace.
    #[serde(default = "survey_skips")]
    pub survey_skips: Vec<String>,
    /// The field manager of all writes, which owns the fields that Tenure sets. Default `tenure`. Two instances of
    /// Tenure on one cluster need different ones.
    #[serde(default = "manager")]
    pub field_manager: String,
    /// The prefix of Tenure's labels, annotations and taints, a DNS name. Default `tenure.dev`. Do not change it while
    /// tenants exist: their objects would no longer be recognised.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// The resource that counts GPUs in queues. Default `nvidia.com/gpu`.
    #[serde(default = "gpu_resource")]
    pub gpu_resource: String,
    /// The node label with the GPU model, as the inventory names it. Default `nvidia.com/gpu.product`, which GPU
    /// feature discovery sets.
    #[serde(default = "gpu_label")]
    pub gpu_label: String,
    /// The admission webhook that restricts images and tolerations of tenants, for clusters without admission policies
    /// (before 1.30). Default: none; Tenure creates its own policies and fails if the cluster does not serve them. With
    /// a webhook, Tenure creates no policies, and the image probe expects an error from this webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_webhook: Option<String>,
    /// The image of the pods that probe network and placement, pinned by digest (`registry.example/busybox@sha256:…`).
    /// It needs BusyBox's `sh`, `httpd`, `wget`, `timeout` and `seq`. Tenants' admission policies allow it in addition
    /// to their own registries. Default: none; these two probes fail with `platform.unsupported`, and onboarding cannot
    /// complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_image: Option<String>,
    /// The namespace for the probes' pods outside of the tenant. Default `tenure-probes`, which the shipped manifest
    /// creates. It must have no tenant label and no network policy.
    #[serde(default = "probe_namespace")]
    pub probe_namespace: String,
    /// How long a call watches an object that is being deleted or ended, in milliseconds. After that, the call reports
    /// that it is not complete and is retried. Default 5000; 0 disables watches. At most half of the call's time is
    /// used.
    #[serde(default = "watch_ms")]
    pub watch_ms: u64,
    /// MIG layouts by NVIDIA's GPU operator. Default: none; then its labels are not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigTarget>,
}

/// The MIG manager of a cluster and its layouts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigTarget {
    /// Layouts by their name in the MIG manager's configuration (`all-1g.10gb`), with the number of slices of each
    /// profile on one GPU. `all-disabled` always exists.
    #[serde(default)]
    pub layouts: BTreeMap<String, BTreeMap<String, u32>>,
    /// The namespace of the MIG manager's pods. Default `gpu-operator`.
    #[serde(default = "manager_namespace")]
    pub manager_namespace: String,
    /// The label of its pods, `key=value`. Default `app=nvidia-mig-manager`.
    #[serde(default = "manager_label")]
    pub manager_label: String,
}

fn manager_namespace() -> String {
    "gpu-operator".to_owned()
}

fn manager_label() -> String {
    "app=nvidia-mig-manager".to_owned()
}

impl Default for KubernetesTarget {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            verifier_kubeconfig: None,
            survey_skips: survey_skips(),
            field_manager: manager(),
            prefix: prefix(),
            gpu_resource: gpu_resource(),
            gpu_label: gpu_label(),
            admission_webhook: None,
            probe_image: None,
            probe_namespace: probe_namespace(),
            watch_ms: watch_ms(),
            mig: None,
        }
    }
}

fn survey_skips() -> Vec<String> {
    vec!["secrets".to_owned()]
}

fn probe_namespace() -> String {
    "tenure-probes".to_owned()
}

fn watch_ms() -> u64 {
    5000
}

fn manager() -> String {
    "tenure".to_owned()
}

fn prefix() -> String {
    "tenure.dev".to_owned()
}

fn gpu_resource() -> String {
    "nvidia.com/gpu".to_owned()
}

fn gpu_label() -> String {
    "nvidia.com/gpu.product".to_owned()
}

/// An invalid setting. No request was sent.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesTargetError {
    /// The kubeconfig cannot be used.
    #[error("{field} {path}: {why}; check the file, its context and that it can be read")]
    Kubeconfig {
        /// The setting.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The verifier has the platform's credentials.
    #[error(
        "verifier_kubeconfig: it is kubeconfig itself, and a verification with the same credentials proves nothing; give another account"
    )]
    SameVerifier,
    /// A survey needs this kind.
    #[error("survey_skips: {0:?} cannot be left out, since a survey rests on it; take it from the list")]
    Skipped(String),
    /// Tenure does not run in a pod with a service account.
    #[error("kubeconfig: none is set and this is no pod of a cluster ({why}); set kubeconfig to a file")]
    NotInCluster {
        /// The cause.
        why: String,
    },
    /// The API server would reject this name.
    #[error("{field}: {value:?} is not of a-z, 0-9, '-' and '.'; give one that is")]
    Name {
        /// The setting.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// The image is not pinned by digest.
    #[error(
        "probe_image: {0:?} is not pinned: give it as NAME@sha256:DIGEST, since tenants' policies let it in"
    )]
    ProbeImage(String),
    /// The layout is invalid.
    #[error("mig.layouts.{layout}: {why}")]
    Layout {
        /// The name.
        layout: String,
        /// The problem and the fix.
        why: &'static str,
    },
    /// No client can be created from the kubeconfig.
    #[error(
        "kubeconfig: no connection can be made with these credentials ({0}); check certificates and keys"
    )]
    Client(String),
}

impl KubernetesTarget {
    /// Checks that the API server accepts all configured names.
    pub(super) fn checked(&self) -> Result<(), KubernetesTargetError> {
        if self.verifier_kubeconfig.is_some() && self.verifier_kubeconfig == self.kubeconfig {
            return Err(KubernetesTargetError::SameVerifier);
        }
        let rests = ["namespaces", "nodes", "persistentvolumes"];
        if let Some(skipped) = self.survey_skips.iter().find(|kind| rests.contains(&kind.as_str())) {
            return Err(KubernetesTargetError::Skipped(skipped.clone()));
        }
        let plain = |text: &str| {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
            !text.is_empty() && text.len() <= 63 && text.bytes().all(fits)
        };
        let names = [
            ("field_manager", &self.field_manager),
            ("prefix", &self.prefix),
            ("probe_namespace", &self.probe_namespace),
        ];
        for (field, value) in names {
            if !plain(value) {
                return Err(KubernetesTargetError::Name { field, value: value.clone() });
            }
        }
        let pinned = |image: &String| {
            let digest = image.split_once("@sha256:").map(|(_, digest)| digest);
            digest.is_some_and(|digest| digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        for (layout, each) in self.mig.iter().flat_map(|mig| &mig.layouts) {
            let why = match layout.as_str() {
                "all-disabled" => "is a node without partitions; take it from the list",
                _ if each.is_empty() || each.values().any(|count| *count == 0) => {
                    "has nothing in it; say how many of each profile one GPU comes to, as {1g.10gb: 7}"
                }
                _ => continue,
            };
            return Err(KubernetesTargetError::Layout { layout: layout.clone(), why });
        }
        match &self.probe_image {
            Some(image) if !pinned(image) => Err(KubernetesTargetError::ProbeImage(image.clone())),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_with_the_credentials_of_the_removal_or_an_incomplete_survey_is_refused() {
        let own = Some(PathBuf::from("/etc/tenure/eu-1.kubeconfig"));
        let same = KubernetesTarget {
            kubeconfig: own.clone(),
            verifier_kubeconfig: own,
            ..KubernetesTarget::default()
        };
        assert!(same.checked().unwrap_err().to_string().starts_with("verifier_kubeconfig: "));
        let blind = KubernetesTarget { survey_skips: vec!["nodes".into()], ..KubernetesTarget::default() };
        assert!(blind.checked().unwrap_err().to_string().starts_with("survey_skips: \"nodes\""));
        assert!(KubernetesTarget::default().checked().is_ok());
    }
}
