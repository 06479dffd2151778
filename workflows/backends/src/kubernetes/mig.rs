//! GPU layouts of nodes that NVIDIA's GPU operator partitions, by the label that its MIG manager follows.
//!
//! Three sources must agree: the MIG manager's state (a label), the kubelet's `status.allocatable`, and the hardware
//! (labels of GPU feature discovery or, with agents, the driver). Invariant: the manager's state for an earlier layout
//! is never used for the new one, because the write that requests a layout also removes the state label. Sources:
//! gpu-operator and mig-parted, `docs/backends/kubernetes.md`.

use crate::kubernetes::{
    client::{
        TRIES,
        error::Fault,
        list,
        request::{ApiRequest, deadline, escaped},
    },
    cluster::KubernetesCluster,
    labels::{SLICE, at, label, text, uid, version},
    objects::{
        call_history::{CallHistory, PastCall},
        parse::quantity,
    },
    pods::is_so,
    settings::MigTarget,
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use tokio::time::Instant;
use workflows::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, GpuHealth, GpuLayout, Gpus, LayoutState, codes,
};

/// The requested layout.
const CONFIG: &str = "nvidia.com/mig.config";
/// The state of the MIG manager.
const STATE: &str = "nvidia.com/mig.config.state";
/// How slices are exposed: `mixed`, with a resource for each profile, or `single`.
const STRATEGY: &str = "nvidia.com/mig.strategy";
const CAPABLE: &str = "nvidia.com/mig.capable";
/// The number of GPUs on the node.
const COUNT: &str = "nvidia.com/gpu.count";
const WHOLE: &str = "nvidia.com/gpu";
/// The suffix of the label with a profile's count on the hardware: `nvidia.com/mig-1g.10gb.count`. The profile's
/// resource is `nvidia.com/mig-1g.10gb`.
const SLICES: &str = ".count";
/// MIG off; also the layout of a node without the label.
const NONE: &str = "all-disabled";

/// Sets the layouts of a cluster's nodes by label. All other GPU calls are served by agents.
#[derive(Debug)]
pub(crate) struct GpuOperator {
    cluster: Arc<KubernetesCluster>,
    mig: MigTarget,
}

/// The number of whole GPUs, and of slices by profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    whole: u64,
    slices: BTreeMap<String, u64>,
}

impl Counts {
    /// Describes counts that match no layout.
    fn said(&self) -> String {
        let slices = self.slices.iter().map(|(profile, count)| format!("{count} x {profile}"));
        let whole = (self.whole > 0).then(|| format!("{} whole", self.whole));
        let all: Vec<String> = whole.into_iter().chain(slices).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
    }
}

impl GpuOperator {
    /// Returns the backend of this cluster, if its settings have layouts.
    pub(crate) fn of(cluster: &Arc<KubernetesCluster>) -> Option<Self> {
        let mig = cluster.target.mig.clone()?;
        Some(Self { cluster: cluster.clone(), mig })
    }

    async fn node(&self, node: &str, until: Instant) -> Result<Value, ActionError> {
        let live = self.cluster.object(&path(node), until).await?;
        live.ok_or_else(|| {
            let why = format!("the cluster has no node {node}: join it, or let another be claimed");
            ActionError::permanent(codes::OBJECT_MISSING, why)
        })
    }

    /// Returns the counts of a node with `gpus` GPUs in this layout.
    fn wanted(&self, profile: &str, gpus: u64) -> Option<Counts> {
        if profile == NONE {
            return Some(Counts { whole: gpus, slices: BTreeMap::new() });
        }
        let each = self.mig.layouts.get(profile)?;
        let slices = each.iter().map(|(slice, count)| (slice.clone(), u64::from(*count) * gpus));
        Some(Counts { whole: 0, slices: slices.collect() })
    }

    /// Returns the layout with these counts. If several match, prefers the requested one.
    fn named(&self, counts: &Counts, gpus: u64, asked: &str) -> String {
        let known = self.mig.layouts.keys().map(String::as_str);
        let mut all = [asked, NONE].into_iter().chain(known);
        let found = all.find(|name| self.wanted(name, gpus).as_ref() == Some(counts));
        found.map_or_else(|| counts.said(), str::to_owned)
    }

    /// Returns true if a MIG manager runs on the node.
    async fn managed(&self, node: &str, until: Instant) -> Result<bool, ActionError> {
        let all =
            ApiRequest::get(&format!("/api/v1/namespaces/{}/pods", escaped(&self.mig.manager_namespace)))
                .with("labelSelector", &self.mig.manager_label)
                .with("fieldSelector", &format!("spec.nodeName={node}"));
        let pods = list::whole(&self.cluster.client, all, until).await?;
        Ok(pods.iter().any(|pod| is_so(pod, "Ready")))
    }

    /// Returns the reason why a layout cannot be requested, and the fix.
    fn refused(&self, node: &str, live: &Value, profile: &str) -> Option<ActionError> {
        let refused = |why: String| Some(ActionError::permanent(codes::UNSUPPORTED, why));
        if profile == NONE {
            return None;
        }
        if !self.mig.layouts.contains_key(profile) {
            let known = self.mig.layouts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let why = format!(
                "layout {profile} is not in `mig.layouts` of the cluster's settings ({known}): add it there, with the partitions of one GPU"
            );
            return Some(ActionError::permanent(codes::REFUSED, why));
        }
        if label(live, CAPABLE) == Some("false") {
            return refused(format!("node {node} has GPUs that cannot be partitioned ({CAPABLE}=false)"));
        }
        match label(live, STRATEGY) {
            Some("mixed") => None,
            other => refused(format!(
                "node {node}: under the strategy {:?}, partition profiles are not resources: set `mig.strategy: mixed` in the GPU operator",
                other.unwrap_or("none")
            )),
        }
    }
}

fn path(node: &str) -> String {
    format!("/api/v1/nodes/{}", escaped(node))
}

fn asked(node: &Value) -> &str {
    label(node, CONFIG).unwrap_or(NONE)
}

fn state(node: &Value) -> LayoutState {
    match label(node, STATE) {
        Some("success") => LayoutState::Success,
        Some("failed") => LayoutState::Failed,
        Some("rebooting") => LayoutState::Rebooting,
        Some(_) => LayoutState::Pending,
        // No layout was requested yet.
        None if label(node, CONFIG).is_none() => LayoutState::Success,
        None => LayoutState::Pending,
    }
}

/// Returns the counts that the kubelet offers.
fn given_out(node: &Value) -> Counts {
    let all = at(node, &["status", "allocatable"]).and_then(Value::as_object).into_iter().flatten();
    let mut counts = Counts::default();
    for (resource, amount) in all {
        let amount = amount.as_str().and_then(quantity).unwrap_or_default();
        if resource == WHOLE {
            counts.whole = amount;
        } else if let Some(profile) = resource.strip_prefix(SLICE).filter(|_| amount > 0) {
            counts.slices.insert(profile.to_owned(), amount);
        }
    }
    counts
}

/// Returns the counts on the hardware. Labels count partitioned GPUs also as whole ones.
fn found(node: &Value, gpus: u64) -> Counts {
    let all = at(node, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten();
    let slices: BTreeMap<String, u64> = all
        .filter_map(|(key, value)| {
            let profile = key.strip_prefix(SLICE)?.strip_suffix(SLICES)?;
            let count = value.as_str()?.parse().ok().filter(|count| *count > 0)?;
            Some((profile.to_owned(), count))
        })
        .collect();
    Counts { whole: if slices.is_empty() { gpus } else { 0 }, slices }
}

/// Returns the number of GPUs on the node.
fn count(name: &str, node: &Value) -> Result<u64, ActionError> {
    let said = label(node, COUNT).and_then(|text| text.parse().ok());
    said.ok_or_else(|| {
        let why = format!("node {name} has no label {COUNT}: check that GPU feature discovery runs on it");
        ActionError::transient(codes::UNAVAILABLE, why)
    })
}

fn elsewhere(what: &str) -> ActionError {
    let why = format!("the GPU operator {what}: set `agents` for the cluster, and run an agent on each node");
    ActionError::permanent(codes::UNSUPPORTED, why)
}

#[async_trait]
impl Gpus for GpuOperator {
    fn backend(&self) -> &'static str {
        "gpu operator"
    }

    async fn layout(&self, _: &str, node: &str, stamp: &CallMetadata) -> Result<GpuLayout, ActionError> {
        let until = deadline(stamp);
        let live = self.node(node, until).await?;
        let (gpus, asked) = (count(node, &live)?, asked(&live));
        let state = state(&live);
        let waits = matches!(state, LayoutState::Pending | LayoutState::Rebooting);
        Ok(GpuLayout {
            profile: asked.to_owned(),
            state,
            allocatable: self.named(&given_out(&live), gpus, asked),
            hardware: self.named(&found(&live, gpus), gpus, asked),
            // While the node reboots, no process runs on it.
            manager_active: !waits
                || state == LayoutState::Rebooting
                || self.managed(text(&live, &["metadata", "name"]), until).await?,
        })
    }

    async fn set_layout(
        &self,
        _: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let (until, on) = (deadline(stamp), &self.cluster);
        for _ in 0..TRIES {
            let live = self.node(node, until).await?;
            let calls = CallHistory::of(&live, &on.marks.calls())?;
            let (before, newer) = (calls.check(stamp, &format!("node {node}"))?, calls.is_newer(stamp));
            let same = asked(&live) == profile;
            if (before == PastCall::Done || same) && !newer {
                return Ok(());
            }
            let changes = before == PastCall::New && !same;
            // The state of the previous layout does not apply to this one.
            let labels = if changes { json!({ CONFIG: profile, STATE: null }) } else { json!({}) };
            if changes {
                if let Some(error) = self.refused(node, &live, profile) {
                    return Err(error);
                }
                let busy = on.askers(node, until).await?;
                if !busy.is_empty() {
                    let why = format!("GPUs of node {node} are used by {}", busy.join(", "));
                    return Err(ActionError::transient(codes::GPU_BUSY, why));
                }
            }
            let patch = json!({ "metadata": {
                "uid": uid(&live), "resourceVersion": version(&live), "labels": labels,
                "annotations": { on.marks.calls(): calls.with(stamp) },
            } });
            let ask = ApiRequest::merge(&path(node), patch).by(&on.target.field_manager).under(stamp);
            match on.send(&ask, until).await {
                Ok(_) => return Ok(()),
                Err(Fault::Refused(refusal)) if refusal.is_outdated() || refusal.is_missing() => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        let why = format!("node {node} changed during each of {TRIES} attempts");
        Err(ActionError::transient(codes::OBJECT_CHANGED, why))
    }

    async fn diagnose(
        &self,
        _: &str,
        _: &str,
        _: DiagnosisLevel,
        _: &CallMetadata,
    ) -> Result<Diagnosis, ActionError> {
        Err(elsewhere("has no diagnosis on request"))
    }

    async fn health(&self, _: &str, _: &str, _: &CallMetadata) -> Result<GpuHealth, ActionError> {
        Err(elsewhere("does not report the health of GPUs"))
    }

    async fn reset(&self, _: &str, _: &str, _: &CallMetadata) -> Result<(), ActionError> {
        Err(elsewhere("does not reset GPUs"))
    }

    async fn reboot(&self, _: &str, _: &str, _: &str, _: &CallMetadata) -> Result<(), ActionError> {
        Err(elsewhere("does not reboot nodes"))
    }
}
