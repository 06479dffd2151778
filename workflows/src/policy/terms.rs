//! The terms of an onboarding: the conditions that the execution then follows.

use super::{
    GpuPiece, Multitenancy, OnboardingFacts, OnboardingRequest, PlatformPolicy, PolicyRef,
    decisions::{classes_apart, gpu_layout, sharing_limits},
};
use crate::{
    placement::{Candidate, Constraints},
    tenancy::PriorityClass,
    tenancy::{
        Cents, ClusterId, ClusterKind, Compliance, GpuOffer, GpuSlicing, Gpus, Isolation, Layout,
        QuotaLimits, RegionId, WorkspaceClass, WorkspaceName, quotas::limit_names,
    },
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The terms of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceTerms {
    /// The name.
    pub name: WorkspaceName,
    /// The class.
    pub class: WorkspaceClass,
    /// Its quota, in whole GPUs or in slices if the tenant's GPUs are partitioned.
    pub limits: QuotaLimits,
}

/// The class of a list price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PriceClass {
    /// Up to the threshold.
    Usual,
    /// Above the threshold; finance must approve.
    AboveThreshold,
}

/// The terms of one onboarding, fixed by the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingTerms {
    /// The policy version of these terms.
    pub policy: PolicyRef,
    /// True if policy waives the approval.
    pub waived: bool,
    /// The seats that must approve otherwise; never empty.
    pub seats: Vec<Seat>,
    /// The time limit of the approval.
    pub approve_within: Duration,
    /// Reminders and escalation of the approval, and the emergency override.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// The time to wait for capacity before an approval is requested.
    pub waitlist: Duration,
    /// The seats of that approval.
    pub patience_seats: Vec<Seat>,
    /// The time limit of that approval.
    pub patience: Duration,
    /// The most unfit nodes to replace.
    pub max_replacements: u32,
    /// The list price of a month.
    pub monthly: Cents,
    /// The class of that price.
    pub price_class: PriceClass,
    /// The constraints of placement.
    pub constraints: Constraints,
    /// The partition layout of the GPUs.
    pub layout: Layout,
    /// The slices of the GPUs, if any. Quotas of workspaces count these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// The memory and compute of each GPU or slice, by the catalogue. `None` for a model that policy does not name, and in earlier decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_piece: Option<GpuPiece>,
    /// The registries that the tenant's images may come from.
    pub registries: Vec<String>,
    /// True if the tenant's workloads may be preempted.
    pub preemptible: bool,
    /// The priority of the tenant's workloads. A higher value is more important.
    pub priority: u32,
    /// The PriorityClass in Kubernetes. `None` in decisions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<PriorityClass>,
    /// The default request of a container, as in [`limit_names::REQUEST`]. `None` in decisions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_request: Option<BTreeMap<String, u64>>,
    /// True if quotas may exceed the tenant's GPUs.
    pub overcommit: bool,
    /// The workspaces.
    pub workspaces: Vec<WorkspaceTerms>,
}

/// The clusters of a decision.
pub(super) struct ClusterChoice<'a> {
    /// One of them; its kind determines the objects to create.
    pub(super) shape: &'a Candidate,
    /// The regions of the clusters.
    pub(super) regions: BTreeSet<RegionId>,
}

impl OnboardingTerms {
    /// Returns the terms of `facts` under `policy`, on the clusters `chosen`, with approvals by `seats`.
    pub(super) fn from_facts(
        facts: &OnboardingFacts,
        policy: &PlatformPolicy,
        chosen: &ClusterChoice<'_>,
        seats: Vec<Seat>,
    ) -> Self {
        let request = &facts.request;
        let waived = seats.is_empty();
        let seats = if waived { policy.onboarding.seats.clone() } else { seats };
        let monthly = policy.monthly(&request.entitlement.gpu_model, request.entitlement.gpus);
        let above = monthly > policy.onboarding.finance_above;
        let priority = policy.priorities.get(&request.tenant.tier).copied().unwrap_or_default();
        let kubernetes = chosen.shape.kind == ClusterKind::Kubernetes;
        let requested = || limit_names::REQUEST.map(|(name, amount)| (name.to_owned(), amount)).into();
        Self {
            policy: policy.reference.clone(),
            waived,
            procedure: policy
                .onboarding
                .procedure
                .clone()
                .with_extra_seats(seats.get(policy.onboarding.seats.len()..).unwrap_or_default()),
            seats,
            approve_within: policy.onboarding.within,
            waitlist: policy.waitlist,
            patience_seats: policy.onboarding.seats.clone(),
            patience: policy.patience,
            max_replacements: policy.max_replacements,
            monthly,
            price_class: if above { PriceClass::AboveThreshold } else { PriceClass::Usual },
            constraints: Constraints {
                regions: Some(chosen.regions.clone()),
                kind: Some(chosen.shape.kind),
                simulated: Some(chosen.shape.simulated),
                ..constraints(facts, policy)
            },
            layout: gpu_layout(request.tenant.isolation, &request.entitlement.gpu_model),
            slicing: slicing(facts, policy).unwrap_or_default(),
            gpu_piece: policy.gpu_models.piece(&RequestedPieces::of(facts, policy).offer),
            registries: policy.registries.clone(),
            preemptible: request.tenant.allow_preemption,
            priority,
            priority_class: kubernetes.then(|| PriorityClass::new(request.tenant.tier, priority)),
            container_request: kubernetes.then(requested),
            overcommit: policy.overcommit,
            workspaces: workspaces(facts, policy),
        }
    }
}

/// Returns the placement constraints of `facts`, without a kind of cluster.
#[must_use]
pub fn constraints(facts: &OnboardingFacts, policy: &PlatformPolicy) -> Constraints {
    let request = &facts.request;
    Constraints {
        tenant: request.name.clone(),
        residency: request.tenant.data_residency.clone(),
        regions: request.entitlement.region.clone().map(|region| BTreeSet::from([region])),
        cluster: None,
        isolation: request.tenant.isolation,
        kind: None,
        simulated: None,
        buffer: policy.buffer,
        buffers: policy.buffers.clone(),
        drivers: policy.drivers.clone(),
        pins: pins(&request.compliance, policy),
        apart: classes_apart(policy, &classes(request)),
    }
}

/// Returns the classes of the requested workspaces.
pub(crate) fn classes(request: &OnboardingRequest) -> BTreeSet<WorkspaceClass> {
    request.workspaces.iter().map(|workspace| workspace.class).collect()
}

/// Returns the pins that apply to a tenant with these tags.
pub(crate) fn pins(tags: &BTreeSet<Compliance>, policy: &PlatformPolicy) -> BTreeMap<String, ClusterId> {
    let tagged = |label: &str| tags.iter().any(|tag| <&str>::from(*tag) == label);
    let pins = policy.pins.iter().filter(|pin| tagged(&pin.label));
    pins.map(|pin| (pin.label.clone(), pin.cluster.clone())).collect()
}

/// Returns the slices of the tenant's GPUs; `None` if they stay whole.
///
/// # Errors
/// A requested profile that does not exist.
pub(super) fn slicing(
    facts: &OnboardingFacts,
    policy: &PlatformPolicy,
) -> Result<Option<GpuSlicing>, String> {
    let bought = &facts.request.entitlement;
    match facts.request.tenant.isolation {
        Isolation::SharedSlices => {
            policy.gpu_models.slicing(&bought.gpu_model, bought.slice_profile.as_ref())
        }
        Isolation::DedicatedCluster | Isolation::DedicatedNodes => match &bought.slice_profile {
            None => Ok(None),
            Some(profile) => Err(format!("slices of {profile} need isolation shared_slices")),
        },
    }
}

/// The pieces of the tenant's GPUs, and the bought and requested amounts in these pieces.
pub(super) struct RequestedPieces {
    pub(super) offer: GpuOffer,
    pub(super) bought: u64,
    pub(super) requested: u64,
}

impl RequestedPieces {
    pub(super) fn of(facts: &OnboardingFacts, policy: &PlatformPolicy) -> Self {
        let (request, bought) = (&facts.request, &facts.request.entitlement);
        let offer = GpuOffer::of(&bought.gpu_model, slicing(facts, policy).unwrap_or_default().as_ref());
        let nominal = |w: &super::WorkspaceRequest| w.pieces(&offer, w.nominal).unwrap_or(Gpus::ZERO);
        let requested = request.workspaces.iter().map(|w| u64::from(nominal(w).0)).sum();
        Self { bought: offer.pieces(bought.gpus), requested, offer }
    }
}

/// Returns the quotas. Workspaces without a nominal quota get equal shares of the rest; the first ones get one more if it does not divide.
fn workspaces(facts: &OnboardingFacts, policy: &PlatformPolicy) -> Vec<WorkspaceTerms> {
    let request = &facts.request;
    let pieces = RequestedPieces::of(facts, policy);
    let offer = &pieces.offer;
    let open = request.workspaces.iter().filter(|w| w.nominal.is_none()).count();
    let open = u32::try_from(open).unwrap_or(u32::MAX);
    let left = u32::try_from(pieces.bought.saturating_sub(pieces.requested)).unwrap_or(u32::MAX);
    let share = left.checked_div(open).unwrap_or(0);
    let mut extra = left.checked_rem(open).unwrap_or(0);
    let mut shared = || {
        let one = u32::from(extra > 0);
        extra = extra.saturating_sub(one);
        Gpus(share.saturating_add(one))
    };
    // Workloads that may not be preempted could not return borrowed GPUs (I-11), so they may not borrow. Customers of a tenant may not borrow from each other,
    // unless policy allows it.
    let customers = request.multitenancy == Some(Multitenancy::Customer) && !policy.lending.customer_sharing;
    let borrows = request.tenant.allow_preemption && !customers;
    let limits = |workspace: &super::WorkspaceRequest, nominal: Gpus| {
        let named = QuotaLimits {
            nominal,
            borrowing_limit: workspace.pieces(offer, workspace.limits.borrowing_limit),
            lending_limit: workspace.pieces(offer, workspace.limits.lending_limit),
            ..workspace.limits.clone()
        };
        sharing_limits(&named, offer, borrows, policy)
    };
    let terms = request.workspaces.iter().map(|workspace| WorkspaceTerms {
        name: workspace.name.clone(),
        class: workspace.class,
        limits: limits(workspace, workspace.pieces(offer, workspace.nominal).unwrap_or_else(&mut shared)),
    });
    terms.collect()
}
