//! Examples of changes that together contain every action: one with tighter limits and a new layout, its opposite, and one without a decision.

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

/// Created once, because the engine requests examples whenever it rebuilds an undo.
pub(super) fn all() -> Vec<SlaChange> {
    static MADE: OnceLock<Vec<SlaChange>> = OnceLock::new();
    MADE.get_or_init(|| make().unwrap_or_default()).clone()
}

/// Returns the facts of `request` for a tenant of eight GPUs with seven slices each.
fn facts(request: &SlaRequest, policy: &PlatformPolicy) -> Option<SlaFacts> {
    let line = Allowance { nominal: 56, borrowing_limit: Some(56), lending_limit: Some(56) };
    let name: crate::tenancy::WorkspaceName = "research".parse().ok()?;
    let workspace =
        SlaWorkspace { name: name.clone(), class: WorkspaceClass::Research, before: line, after: line };
    Some(SlaFacts {
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
    })
}

fn make() -> Option<Vec<SlaChange>> {
    let request = SlaRequest::from_yaml(REQUEST).ok()?;
    let policy = PlatformPolicy::built_in().ok()?;
    let facts = facts(&request, &policy)?;
    let mut tightening = SlaChange::new(request.clone());
    tightening.evaluated(evaluate(&facts, &policy));
    // The reverse change, whose layers change in the other order.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::Multitenancy;

    /// Returns the rules that forbid shared slices to a tenant of this kind.
    fn refused(multitenancy: Option<Multitenancy>, customer_sharing: bool) -> Vec<String> {
        let mut policy = PlatformPolicy::built_in().unwrap();
        policy.lending.customer_sharing = customer_sharing;
        let text = "tenant: example\nisolation: shared_slices\nallow_gpu_sharing: true\nreason: a test\n";
        let mut facts = facts(&SlaRequest::from_yaml(text).unwrap(), &policy).unwrap();
        let tenant = facts.tenant.take().unwrap();
        let isolation = Isolation::DedicatedNodes;
        facts.tenant = Some(Tenant { isolation, allow_gpu_sharing: false, multitenancy, ..tenant });
        let reasons = evaluate(&facts, &policy).reasons;
        let failed = reasons.into_iter().filter(|reason| reason.verdict == crate::policy::Judgement::Failed);
        failed.map(|reason| reason.rule).collect()
    }

    #[test]
    fn a_tenant_with_customers_gets_no_isolation_level_with_shared_gpus() {
        let customers = Some(Multitenancy::Customer);
        assert!(refused(customers, false).contains(&"multitenancy.sharing".to_owned()));
        assert!(!refused(customers, true).contains(&"multitenancy.sharing".to_owned()));
        for others in [None, Some(Multitenancy::Team), Some(Multitenancy::Workload)] {
            assert!(!refused(others, false).contains(&"multitenancy.sharing".to_owned()), "{others:?}");
        }
    }
}
