//! The terms of a quota change: the conditions that the change then follows.

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

/// The terms of one change, fixed by the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeTerms {
    /// The policy version of these terms.
    pub policy: PolicyRef,
    /// The rule that replaces an approval, if any.
    pub waived: Option<String>,
    /// The seats that must approve otherwise; never empty.
    pub seats: Vec<Seat>,
    /// The time limit of the approval.
    pub approve_within: Duration,
    /// Reminders and escalation of the approval.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// The time to wait for capacity, or for the end of excess usage, before an approval is requested.
    pub wait: Duration,
    /// The seats of that approval.
    pub patience_seats: Vec<Seat>,
    /// The time limit of that approval.
    pub patience: Duration,
    /// The most unfit nodes to replace.
    pub max_replacements: u32,
    /// The cluster of the tenant.
    pub cluster: ClusterId,
    /// The scheduler of the cluster, which determines the layers.
    pub kind: ClusterKind,
    /// True if it has no real target.
    pub simulated: bool,
    /// The allowance at the decision. The change is refused if it is no longer in force.
    pub before: Allowance,
    /// The allowance after the change.
    pub after: Allowance,
    /// The bought amount in the resource's unit. Limits borrowing.
    pub bought: Gpus,
    /// GPUs that the tenant lacked at the decision and that nodes must be claimed for.
    pub lacking: Gpus,
    /// The constraints of such nodes.
    pub constraints: Constraints,
    /// The layout of their GPUs.
    pub layout: Layout,
    /// The slices of their GPUs, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// True if quotas may exceed the tenant's GPUs.
    pub overcommit: bool,
    /// The end of a temporary change.
    pub ends: Option<Timestamp>,
}

impl ChangeTerms {
    /// Returns the values of each layer of the platform under `allowance`.
    #[must_use]
    pub fn limits(&self, resource: &Resource, allowance: &Allowance) -> LayerLimits {
        layer_limits(self.kind, resource, allowance, self.bought)
    }
}

/// Returns the values of each layer of a cluster of `kind` for a resource under `allowance`.
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

/// Returns the names of a workspace's resource in the layers of a cluster of `kind`.
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

/// Returns terms of a typical decision, for the examples of the static check and the diagram.
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
            apart: Vec::new(),
        },
        layout: Layout::Whole,
        slicing: None,
        overcommit: false,
        ends: None,
        policy: policy.reference,
    })
}
