//! Which cluster, and under which names Tenure works in it.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// One cluster, as operators describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesTarget {
    /// The kubeconfig file with address and credentials. Default: none, which is the service account of the pod that Tenure runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// The context within the kubeconfig. Default: its current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The kubeconfig file, in its current context, with which it is verified that things are gone: of the same cluster, of another
    /// account, that need only list. Default none: then nothing can be verified, and what asks for it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_kubeconfig: Option<PathBuf>,
    /// Kinds that a survey of what a tenant left does not list, as `secrets` or `widgets.example.org`. Default `secrets`, since who
    /// may list them may read them all. In a tenant's own namespaces they go with the namespace.
    #[serde(default = "survey_skips")]
    pub survey_skips: Vec<String>,
    /// The field manager under which every write is made, and that owns what Tenure sets. Default `tenure`. Two Tenures on one
    /// cluster need two.
    #[serde(default = "manager")]
    pub field_manager: String,
    /// The prefix of our labels, annotations and taints, a DNS name. Default `tenure.dev`. Never change it while tenants are there:
    /// their objects would become strangers.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// The resource by which GPUs are counted in queues. Default `nvidia.com/gpu`.
    #[serde(default = "gpu_resource")]
    pub gpu_resource: String,
    /// The node label whose value is the GPU model, as the inventory names it. Default `nvidia.com/gpu.product`, which GPU feature
    /// discovery sets.
    #[serde(default = "gpu_label")]
    pub gpu_label: String,
    /// The admission webhook that restricts images and tolerations of tenants, on a cluster that serves no admission policies
    /// (before 1.30). Default none: Tenure makes policies of its own, and is refused where the cluster serves none. With one, the
    /// guard is the operator's, nothing is made, and the probe of images wants a refusal by this webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_webhook: Option<String>,
    /// The image of the pods by which the network and the placement of pods are probed, pinned by its digest
    /// (`registry.example/busybox@sha256:…`), with BusyBox's `sh`, `httpd`, `wget`, `timeout` and `seq`. Tenants' admission policies let it in
    /// besides their own. Default none: these two probes answer `platform.unsupported`, and no onboarding passes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_image: Option<String>,
    /// The namespace of the platform in which probes play the stranger. Default `tenure-probes`, which the shipped manifest makes. It
    /// bears no label of a tenant, and no network policy of its own.
    #[serde(default = "probe_namespace")]
    pub probe_namespace: String,
    /// For how long a call waits by a watch for what is being deleted or ended to be gone, in milliseconds, before it says that it is not
    /// done yet and is made again. Default 5000; 0 never watches. At most half of the call's own time.
    #[serde(default = "watch_ms")]
    pub watch_ms: u64,
    /// How GPUs are partitioned there by NVIDIA's GPU operator. Default none: then its labels are not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigTarget>,
}

/// The MIG manager of a cluster, and the layouts that it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigTarget {
    /// By its name in the MIG manager's own configuration (`all-1g.10gb`): how many of each profile one GPU comes to. `all-disabled` is
    /// known.
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

/// Why a cluster cannot be spoken to. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesTargetError {
    /// The kubeconfig cannot be used.
    #[error("{field} {path}: {why}; check the file, its context and that it can be read")]
    Kubeconfig {
        /// Which setting.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The verifier is who does the work.
    #[error(
        "verifier_kubeconfig: it is kubeconfig itself, and a verification with the same credentials proves nothing; give another account"
    )]
    SameVerifier,
    /// A survey without it would be none.
    #[error("survey_skips: {0:?} cannot be left out, since a survey rests on it; take it from the list")]
    Skipped(String),
    /// There is no service account.
    #[error("kubeconfig: none is set and this is no pod of a cluster ({why}); set kubeconfig to a file")]
    NotInCluster {
        /// What was looked for.
        why: String,
    },
    /// A name that the API server would refuse.
    #[error("{field}: {value:?} is not of a-z, 0-9, '-' and '.'; give one that is")]
    Name {
        /// Which setting.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// An image whose content may change.
    #[error(
        "probe_image: {0:?} is not pinned: give it as NAME@sha256:DIGEST, since tenants' policies let it in"
    )]
    ProbeImage(String),
    /// A layout that is none.
    #[error("mig.layouts.{layout}: {why}")]
    Layout {
        /// Its name.
        layout: String,
        /// What is wrong with it, and what to write.
        why: &'static str,
    },
    /// No connection can be prepared from it.
    #[error(
        "kubeconfig: no connection can be made with these credentials ({0}); check certificates and keys"
    )]
    Client(String),
}

impl KubernetesTarget {
    /// The settings, if the API server would take the names in them.
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
    fn a_verifier_that_did_the_work_and_a_survey_with_holes_are_refused() {
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
