//! Decides on the isolation of a tenant: the required parts, and the probes that test them (S-22, S-89).

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{Multitenancy, PlatformPolicy, RuleName, ScrubMethod},
    tenancy::IsolationKind,
    tenancy::{ClusterKind, Compliance, Gpu, GpuModel, GpuSlicing, Isolation, Layout, Profile},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::VariantArray as _;

/// The facts of an isolation decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsolationFacts {
    /// The requested level.
    pub isolation: Isolation,
    /// True if workspaces may share one GPU.
    pub allow_gpu_sharing: bool,
    /// The groups that share the tenant.
    #[serde(default)]
    pub multitenancy: Option<Multitenancy>,
    /// The compliance tags.
    #[serde(default)]
    pub compliance: BTreeSet<Compliance>,
    /// The model of its GPUs.
    pub model: GpuModel,
    /// The requested slice profile; `None` for the smallest, if GPUs are partitioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_profile: Option<Profile>,
    /// The kind of cluster.
    pub kind: ClusterKind,
}

/// A part of a tenant's isolation.
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
    /// The credential of that cluster, valid only there.
    ClusterKey,
    /// Label and taint of each node, with the owner's epoch.
    NodeOwnership,
    /// A key that encrypts its data.
    DataKey,
    /// A namespace for each workspace.
    Namespace,
    /// Traffic denied by default.
    NetworkPolicy,
    /// Access for the tenant's own users only.
    RoleBinding,
    /// The tenant's own images and nodes only.
    ValidatingAdmissionPolicy,
    /// Hard limits.
    ResourceQuota,
    /// The limits of each container.
    LimitRange,
    /// The cohort in which its workspaces lend to each other.
    Cohort,
    /// The flavor of its nodes.
    ResourceFlavor,
    /// A queue for each workspace.
    ClusterQueue,
    /// The local queue of each workspace.
    LocalQueue,
    /// The account in the batch scheduler.
    Account,
    /// GPUs partitioned into slices.
    Slices,
}

/// The isolation of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationRules {
    /// The required isolation.
    Apart {
        /// The parts that must exist.
        parts: BTreeSet<IsolationPart>,
        /// The probes that test it at the end and every night.
        probes: Vec<IsolationKind>,
        /// The minimum scrub of GPU memory when GPUs move between workspaces.
        scrub: ScrubMethod,
        /// The partition layout of the GPUs, by name.
        layout: String,
    },
    /// The requested level is not sufficient.
    Insufficient,
}

/// Decides on the isolation of a tenant.
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
        let detail = format!("{tag} requires isolation {}", all.join(" or "));
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
    let detail = "customers of a tenant may not share GPUs";
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

/// Returns the layout of GPUs of `model` at this level. Only a tenant that shares GPUs among its workspaces has partitioned GPUs.
#[must_use]
pub fn gpu_layout(isolation: Isolation, model: &GpuModel) -> Layout {
    match isolation {
        Isolation::SharedSlices => Gpu::finest_layout(model),
        Isolation::DedicatedCluster | Isolation::DedicatedNodes => Layout::Whole,
    }
}

/// Returns the minimum scrub of GPU memory for a tenant with these tags, before GPUs move within or between workspaces, and the policy key that requires it.
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

/// Returns the probes that test the isolation of a tenant. Only Kubernetes has namespaces to probe from.
#[must_use]
pub fn isolation_probes(kind: ClusterKind) -> Vec<IsolationKind> {
    match kind {
        ClusterKind::Kubernetes => IsolationKind::VARIANTS.to_vec(),
        ClusterKind::Slurm | ClusterKind::BareMetal => vec![IsolationKind::ForeignKey],
    }
}
