//! What policy makes of a request for another quota: the conditions that the change then keeps to.

use crate::{
    placement::Constraints,
    platform::{FlavorQuota, LayerLimits, LimitNames},
    policy::{PlatformPolicy, PolicyRef},
    tenancy::{
        Allowance, ClusterId, ClusterKind, GpuSlicing, Gpus, Isolation, Layout, Residency, Resource,
        TenantId, WorkspaceName, quotas::limit_names,
    },
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;

/// The conditions of one change, fixed by the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeTerms {
    /// The policy that they come from.
    pub policy: PolicyRef,
    /// The rule that stands for people, if one does.
    pub waived: Option<String>,
    /// Who must agree otherwise; never empty.
    pub seats: Vec<Seat>,
    /// How long they have.
    pub approve_within: Duration,
    /// What else policy says about asking them.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// How long capacity, or the end of excess use, is waited for before people are asked.
    pub wait: Duration,
    /// Who is asked then.
    pub patience_seats: Vec<Seat>,
    /// How long they have.
    pub patience: Duration,
    /// How many unfit nodes are replaced.
    pub max_replacements: u32,
    /// The cluster of the tenant.
    pub cluster: ClusterId,
    /// What schedules its work, which says which layers there are.
    pub kind: ClusterKind,
    /// Whether nothing real is behind it.
    pub simulated: bool,
    /// What was in force when it was decided; the change is refused when it is not any more.
    pub before: Allowance,
    /// What will be in force.
    pub after: Allowance,
    /// What was bought, in the resource's unit: bounds what may be borrowed on top.
    pub bought: Gpus,
    /// GPUs that the tenant did not own when it was decided, and that nodes must be claimed for.
    pub lacking: Gpus,
    /// What such nodes keep to.
    pub constraints: Constraints,
    /// How their GPUs are cut up.
    pub layout: Layout,
    /// The slices that they are cut into, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// Whether quotas may exceed what the tenant owns.
    pub overcommit: bool,
    /// When it ends by itself.
    pub ends: Option<Timestamp>,
}

impl ChangeTerms {
    /// What each layer of the platform says under `allowance`.
    #[must_use]
    pub fn limits(&self, resource: &Resource, allowance: &Allowance) -> LayerLimits {
        layer_limits(self.kind, resource, allowance, self.bought)
    }
}

/// What each layer of a cluster of `kind` says of a resource under `allowance`.
pub(crate) fn layer_limits(
    kind: ClusterKind,
    resource: &Resource,
    allowance: &Allowance,
    bought: Gpus,
) -> LayerLimits {
    let gpu = resource.gpu();
    let queue = gpu.map(|kind| FlavorQuota {
        model: kind.model.to_string(),
        profile: kind.profile.as_ref().map(ToString::to_string),
        nominal: allowance.nominal,
        borrowing_limit: allowance.borrowing_limit,
        lending_limit: allowance.lending_limit,
    });
    match kind {
        ClusterKind::Kubernetes => LayerLimits {
            cohort: gpu.map(|_| allowance.nominal),
            queue,
            hard: Some(limit_names::amount(resource, allowance, bought)),
            association: None,
        },
        ClusterKind::Slurm => LayerLimits {
            association: limit_names::association_name(resource)
                .map(|_| limit_names::association_amount(resource, allowance, bought)),
            ..LayerLimits::default()
        },
        ClusterKind::BareMetal => LayerLimits::default(),
    }
}

/// What the layers of a cluster of `kind` call one resource of a workspace.
#[must_use]
pub fn layer_names(
    cluster: &ClusterId,
    kind: ClusterKind,
    tenant: &TenantId,
    workspace: &WorkspaceName,
    resource: &Resource,
) -> LimitNames {
    let none = LimitNames {
        cluster: cluster.to_string(),
        tenant: tenant.to_string(),
        workspace: workspace.to_string(),
        ..LimitNames::default()
    };
    let gpu = resource.gpu();
    match kind {
        ClusterKind::Kubernetes => LimitNames {
            cohort: gpu.map(|_| limit_names::cohort(workspace, resource)),
            queue: gpu.map(|kind| kind.model.to_string()),
            hard: Some(limit_names::hard_name(resource)),
            ..none
        },
        ClusterKind::Slurm => LimitNames { association: limit_names::association_name(resource), ..none },
        ClusterKind::BareMetal => none,
    }
}

/// Terms such as a decision makes, for the examples that the static check and the diagram look at.
pub(crate) fn example_terms(kind: ClusterKind) -> Option<ChangeTerms> {
    let policy = PlatformPolicy::built_in().ok()?;
    let gate = &policy.approvals.quota_increase.gate;
    let line = |nominal| Allowance { nominal, borrowing_limit: Some(8), lending_limit: Some(8) };
    Some(ChangeTerms {
        waived: None,
        seats: gate.seats.clone(),
        approve_within: gate.within,
        procedure: gate.procedure.clone(),
        wait: policy.waitlist,
        patience_seats: gate.seats.clone(),
        patience: policy.patience,
        max_replacements: policy.max_replacements,
        cluster: "eu-1".parse().ok()?,
        kind,
        simulated: true,
        before: line(8),
        after: line(16),
        bought: Gpus(16),
        lacking: Gpus(8),
        constraints: Constraints {
            tenant: "example".parse().ok()?,
            residency: Residency::Any,
            regions: None,
            cluster: None,
            isolation: Isolation::DedicatedNodes,
            kind: Some(kind),
            simulated: Some(true),
            buffer: Gpus::ZERO,
            buffers: BTreeMap::new(),
            drivers: policy.drivers.clone(),
            pins: BTreeMap::new(),
        },
        layout: Layout::Whole,
        slicing: None,
        overcommit: false,
        ends: None,
        policy: policy.reference,
    })
}
