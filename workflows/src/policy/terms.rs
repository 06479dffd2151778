//! What policy makes of a request: the conditions that an execution then keeps to.

use super::{
    GpuPiece, Multitenancy, OnboardingFacts, PlatformPolicy, PolicyRef,
    decisions::{gpu_layout, sharing_limits},
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

/// A workspace as it will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceTerms {
    /// Its name.
    pub name: WorkspaceName,
    /// What it is for.
    pub class: WorkspaceClass,
    /// Its quota, in whole GPUs or in slices as the tenant's GPUs are cut.
    pub limits: QuotaLimits,
}

/// What sort of sum the list price is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PriceClass {
    /// Up to the threshold.
    Usual,
    /// Above it: finance is asked.
    AboveThreshold,
}

/// The conditions of one onboarding, fixed by the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingTerms {
    /// The policy that they come from.
    pub policy: PolicyRef,
    /// Whether policy stands for people.
    pub waived: bool,
    /// Who must agree otherwise; never empty.
    pub seats: Vec<Seat>,
    /// How long they have.
    pub approve_within: Duration,
    /// What else policy says about asking them.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// How long capacity is waited for before people are asked.
    pub waitlist: Duration,
    /// Who is asked then.
    pub patience_seats: Vec<Seat>,
    /// How long they have.
    pub patience: Duration,
    /// How many unfit nodes are replaced.
    pub max_replacements: u32,
    /// List price of a month.
    pub monthly: Cents,
    /// What sort of sum that is.
    pub price_class: PriceClass,
    /// What a placement keeps to.
    pub constraints: Constraints,
    /// How the GPUs are cut up.
    pub layout: Layout,
    /// The slices that they are cut into, if any. Quotas of workspaces count these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// What each GPU or slice has, by the catalogue. `None` for a model that policy does not name, and in earlier decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_piece: Option<GpuPiece>,
    /// Registries from which the tenant's images may come.
    pub registries: Vec<String>,
    /// Whether the tenant's work may be preempted.
    pub preemptible: bool,
    /// Rank of the tenant's work among its own: higher goes first.
    pub priority: u32,
    /// The class by which Kubernetes ranks it. `None` in what was decided without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<PriorityClass>,
    /// What a container that asks for nothing is taken to ask for, as [`limit_names::REQUEST`] has it. `None` in what was decided
    /// without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_request: Option<BTreeMap<String, u64>>,
    /// Whether quotas may exceed what the tenant owns.
    pub overcommit: bool,
    /// The workspaces.
    pub workspaces: Vec<WorkspaceTerms>,
}

/// Which clusters the decision is about.
pub(super) struct ClusterChoice<'a> {
    /// One of them: its kind says which objects are made.
    pub(super) shape: &'a Candidate,
    /// Where they are.
    pub(super) regions: BTreeSet<RegionId>,
}

impl OnboardingTerms {
    /// The terms of `facts` under `policy`, on the clusters `chosen`, with `seats` asked.
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

/// What a placement for `facts` keeps to, before a kind of cluster is fixed.
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
    }
}

/// The pins that hold for a tenant with these tags.
pub(crate) fn pins(tags: &BTreeSet<Compliance>, policy: &PlatformPolicy) -> BTreeMap<String, ClusterId> {
    let tagged = |label: &str| tags.iter().any(|tag| <&str>::from(*tag) == label);
    let pins = policy.pins.iter().filter(|pin| tagged(&pin.label));
    pins.map(|pin| (pin.label.clone(), pin.cluster.clone())).collect()
}

/// The slices that the tenant's GPUs are cut into; `None` where they stay whole.
///
/// # Errors
/// A profile that was asked for and cannot be had.
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

/// What each GPU of the tenant offers, and what was bought and asked for in pieces of that.
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

/// The quotas: those named, and an equal share of what they leave for the others, the first ones one more.
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
    // Work that may not be preempted could not give back what it borrowed (I-11), so it borrows nothing; nor do customers
    // of a tenant from each other, unless policy says so.
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
