//! What keeps a tenant apart: the parts that must stand, and the probes that try them (S-22, S-89).

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{Multitenancy, PlatformPolicy, RuleName, ScrubMethod},
    tenancy::IsolationKind,
    tenancy::{ClusterKind, Compliance, Gpu, GpuModel, GpuSlicing, Isolation, Layout, Profile},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::VariantArray as _;

/// For whom isolation is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsolationFacts {
    /// The level that was asked for.
    pub isolation: Isolation,
    /// Whether workspaces may share one GPU.
    pub allow_gpu_sharing: bool,
    /// Who shares what the tenant has.
    #[serde(default)]
    pub multitenancy: Option<Multitenancy>,
    /// What further rules hold.
    #[serde(default)]
    pub compliance: BTreeSet<Compliance>,
    /// The model of its GPUs.
    pub model: GpuModel,
    /// The slices that were asked for; `None` for the smallest, where GPUs are cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_profile: Option<Profile>,
    /// What schedules its work.
    pub kind: ClusterKind,
}

/// A part of what keeps a tenant apart.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum IsolationPart {
    /// A cluster of its own.
    OwnCluster,
    /// The credential of that cluster, good for nothing else.
    ClusterKey,
    /// Label and taint of each node, with the owner's epoch.
    NodeOwnership,
    /// A key that encrypts its data.
    DataKey,
    /// A namespace for each workspace.
    Namespace,
    /// Traffic denied by default.
    NetworkPolicy,
    /// Its own people only.
    RoleBinding,
    /// Its own images and nodes only.
    ValidatingAdmissionPolicy,
    /// Hard limits.
    ResourceQuota,
    /// What each container may have.
    LimitRange,
    /// The cohort in which its workspaces lend to each other.
    Cohort,
    /// The flavor that stands for its nodes.
    ResourceFlavor,
    /// A queue for each workspace.
    ClusterQueue,
    /// The entrance to it.
    LocalQueue,
    /// Its account in the batch scheduler.
    Account,
    /// GPUs cut into slices.
    Slices,
}

/// What keeps a tenant apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationRules {
    /// This does.
    Apart {
        /// What must stand.
        parts: BTreeSet<IsolationPart>,
        /// What is tried when it does, and every night.
        probes: Vec<IsolationKind>,
        /// The least that is done to GPU memory when GPUs go from one workspace to another.
        scrub: ScrubMethod,
        /// How GPUs are cut up, by the layout's name.
        layout: String,
    },
    /// The level that was asked for does not do.
    Insufficient,
}

/// Decides what keeps a tenant apart.
#[must_use]
pub fn isolation(facts: &IsolationFacts, policy: &PlatformPolicy) -> Ruling<IsolationRules> {
    let mut scales = ReasonCollector::new(policy);
    for tag in &facts.compliance {
        let Some(levels) = policy.compliance.get(tag).and_then(|demands| demands.isolation.as_ref()) else {
            continue;
        };
        let tag = <&str>::from(*tag);
        let all: Vec<&str> = levels.iter().map(|level| (*level).into()).collect();
        let holds = levels.contains(&facts.isolation);
        let detail = format!("{tag} demands isolation {}", all.join(" or "));
        scales.check(
            const { RuleName::known("compliance.isolation") },
            &format!("compliance.{tag}.isolation"),
            holds,
            detail,
        );
    }
    let sliced = facts.isolation == Isolation::SharedSlices;
    let consent = !sliced || facts.allow_gpu_sharing;
    scales.check(
        const { RuleName::known("isolation.sharing_allowed") },
        "lending",
        consent,
        "shared slices need allow_gpu_sharing",
    );
    let customers = facts.multitenancy == Some(Multitenancy::Customer);
    let apart = policy.lending.customer_sharing || !(customers && (sliced || facts.allow_gpu_sharing));
    let detail = "customers of a tenant do not share GPUs";
    scales.check(
        const { RuleName::known("multitenancy.sharing") },
        "lending.customer_sharing",
        apart,
        detail,
    );
    let (scrub, key) = scrub_method(&facts.compliance, false, policy);
    scales.check(
        const { RuleName::known("reclaim.scrub") },
        key,
        true,
        format!("at least {}", <&str>::from(scrub)),
    );
    if scales.failed() {
        return scales.finish(IsolationRules::Insufficient);
    }
    let cut = policy.gpu_models.slicing(&facts.model, facts.slice_profile.as_ref());
    let cut = cut.unwrap_or_default().filter(|_| sliced);
    let otherwise = || gpu_layout(facts.isolation, &facts.model).profile(&facts.model).to_owned();
    let layout = cut.as_ref().map_or_else(otherwise, GpuSlicing::layout);
    let (parts, probes) = (parts(facts), isolation_probes(facts.kind));
    scales.finish(IsolationRules::Apart { parts, probes, scrub, layout })
}

/// Returns how GPUs of `model` are cut at this level: only a tenant that shares its GPUs among its workspaces has them cut.
#[must_use]
pub fn gpu_layout(isolation: Isolation, model: &GpuModel) -> Layout {
    match isolation {
        Isolation::SharedSlices => Gpu::finest_layout(model),
        Isolation::DedicatedCluster | Isolation::DedicatedNodes => Layout::Whole,
    }
}

/// Returns the least that is done to GPU memory before GPUs of a tenant with these tags go to the same or another workspace, and
/// the key that says so.
#[must_use]
pub fn scrub_method(
    tags: &BTreeSet<Compliance>,
    same_workspace: bool,
    policy: &PlatformPolicy,
) -> (ScrubMethod, &'static str) {
    let rules = &policy.reclaim.scrub;
    if same_workspace {
        return (rules.same_workspace, "reclaim.scrub.same_workspace");
    }
    if tags.intersection(&rules.sensitive_tags).next().is_some() {
        return (rules.sensitive, "reclaim.scrub.sensitive");
    }
    (rules.cross_workspace, "reclaim.scrub.cross_workspace")
}

fn parts(facts: &IsolationFacts) -> BTreeSet<IsolationPart> {
    let mut parts = BTreeSet::from([IsolationPart::NodeOwnership, IsolationPart::DataKey]);
    match facts.kind {
        ClusterKind::Kubernetes => parts.extend([
            IsolationPart::Namespace,
            IsolationPart::NetworkPolicy,
            IsolationPart::RoleBinding,
            IsolationPart::ValidatingAdmissionPolicy,
            IsolationPart::ResourceQuota,
            IsolationPart::LimitRange,
            IsolationPart::Cohort,
            IsolationPart::ResourceFlavor,
            IsolationPart::ClusterQueue,
            IsolationPart::LocalQueue,
        ]),
        ClusterKind::Slurm => parts.extend([IsolationPart::Account]),
        ClusterKind::BareMetal => {}
    }
    match facts.isolation {
        Isolation::DedicatedCluster => parts.extend([IsolationPart::OwnCluster, IsolationPart::ClusterKey]),
        Isolation::DedicatedNodes => {}
        Isolation::SharedSlices => parts.extend([IsolationPart::Slices]),
    }
    parts
}

/// Returns the probes that try the isolation of a tenant. Elsewhere than on Kubernetes there are no namespaces to probe from.
#[must_use]
pub fn isolation_probes(kind: ClusterKind) -> Vec<IsolationKind> {
    match kind {
        ClusterKind::Kubernetes => IsolationKind::VARIANTS.to_vec(),
        ClusterKind::Slurm | ClusterKind::BareMetal => vec![IsolationKind::ForeignKey],
    }
}
