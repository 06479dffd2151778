//! Changes that between them show every action: one that tightens limits and cuts GPUs up otherwise, its opposite, and one
//! that has not been decided on.

use super::{SlaChange, SlaFacts, SlaRequest, SlaTerms, SlaWorkspace, evaluate};
use crate::{
    policy::PlatformPolicy,
    tenancy::{
        Allowance, ClusterKind, GpuSlicing, Gpus, Isolation, Residency, Tenant, TenantState, Tier,
        WorkspaceClass,
    },
};
use std::{collections::BTreeSet, sync::OnceLock};
use store::{ExecutionId, Timestamp};

const REQUEST: &str = "
tenant: example
tier: enterprise
isolation: dedicated
allow_preemption: false
allow_gpu_sharing: false
reason: an example
";

/// Made once: the engine asks for examples whenever it rebuilds an undo.
pub(super) fn all() -> Vec<SlaChange> {
    static MADE: OnceLock<Vec<SlaChange>> = OnceLock::new();
    MADE.get_or_init(|| make().unwrap_or_default()).clone()
}

fn make() -> Option<Vec<SlaChange>> {
    let request = SlaRequest::from_yaml(REQUEST).ok()?;
    let policy = PlatformPolicy::built_in().ok()?;
    // Eight GPUs, cut into seven slices each.
    let line = Allowance { nominal: 56, borrowing_limit: Some(56), lending_limit: Some(56) };
    let name: crate::tenancy::WorkspaceName = "research".parse().ok()?;
    let workspace =
        SlaWorkspace { name: name.clone(), class: WorkspaceClass::Research, before: line, after: line };
    let facts = SlaFacts {
        request: request.clone(),
        tenant: Some(Tenant {
            id: request.tenant.clone(),
            tier: Tier::Research,
            isolation: Isolation::SharedSlices,
            data_residency: Residency::Any,
            allow_preemption: true,
            allow_gpu_sharing: true,
            compliance: BTreeSet::new(),
            policy: policy.reference.clone(),
            state: TenantState::Active,
            workspaces: vec![name],
            cluster: Some("eu-1".parse().ok()?),
            onboarded_by: ExecutionId::from_bytes([0; 16]),
            created_at: Timestamp(0),
            activated_at: None,
            closed_at: None,
            multitenancy: None,
        }),
        cluster: Some((ClusterKind::Kubernetes, true)),
        bought: Some(("H100".parse().ok()?, Gpus(8))),
        workspaces: vec![workspace],
        nodes: vec!["node-1".parse().ok()?],
        slicing: Some(GpuSlicing { profile: "1g.10gb".parse().ok()?, per_gpu: 7 }),
    };
    let mut tightening = SlaChange::new(request.clone());
    tightening.evaluated(evaluate(&facts, &policy));
    // The same the other way round, whose layers are changed in the other order.
    let mut loosening = SlaChange::new(request.clone());
    let terms = evaluate(&facts, &policy).terms?;
    let turn = |workspace: SlaWorkspace| SlaWorkspace {
        before: workspace.after,
        after: workspace.before,
        ..workspace
    };
    loosening.terms = Some(SlaTerms {
        before: terms.after,
        after: terms.before,
        workspaces: terms.workspaces.into_iter().map(turn).collect(),
        slicing: (terms.slicing.1, terms.slicing.0),
        ..terms
    });
    Some(vec![tightening, loosening, SlaChange::new(request)])
}
