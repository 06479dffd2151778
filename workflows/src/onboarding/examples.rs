//! Examples of onboardings that together contain every action: on Kubernetes with a dedicated cluster, on Slurm, without an approval, and without a decision.

use super::Onboarding;
use crate::{
    ledger::{ClaimedNode, NodeClaim, RequestEvaluation},
    placement::Candidate,
    policy::{OnboardingFacts, OnboardingRequest, PlatformPolicy, evaluate},
    tenancy::{ClusterKind, Gpus, OwnerEpoch, Tenancy},
};
use std::sync::OnceLock;

const DEDICATED: &str = "
name: example
tenant: {tier: enterprise, isolation: dedicated_cluster, data_residency: eu-only, allow_preemption: true, allow_gpu_sharing: false}
workspaces: [{name: production, class: production}, {name: research, class: research}]
entitlement: {gpu_model: H100, gpus: 16}
compliance: [gdpr]
";
const SMALL: &str = "
name: example
tenant: {tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, allow_gpu_sharing: false}
entitlement: {gpu_model: H100, gpus: 8}
";

/// Created once, because the engine requests examples whenever it rebuilds an undo.
pub(super) fn all() -> Vec<Onboarding> {
    static MADE: OnceLock<Vec<Onboarding>> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> Vec<Onboarding> {
    let dedicated = Tenancy::Dedicated { tenant: None };
    let examples = [
        example(DEDICATED, ClusterKind::Kubernetes, dedicated),
        example(SMALL, ClusterKind::Slurm, Tenancy::Shared),
        OnboardingRequest::from_yaml(SMALL).ok().map(|request| Onboarding::new(request, None)),
    ];
    examples.into_iter().flatten().collect()
}

fn example(text: &str, kind: ClusterKind, tenancy: Tenancy) -> Option<Onboarding> {
    let request = OnboardingRequest::from_yaml(text).ok()?;
    let candidate = Candidate {
        cluster: "eu-1".parse().ok()?,
        region: "eu".parse().ok()?,
        jurisdiction: "eu".parse().ok()?,
        kind,
        simulated: true,
        tenancy,
        total: Gpus(64),
        free: Gpus(64),
        buffer: Gpus::ZERO,
        unready: Vec::new(),
        classes: [].into(),
    };
    let candidates = vec![candidate];
    let facts = OnboardingFacts { request: request.clone(), name_in_use: false, candidates, preflight: None };
    let decided = evaluate(&facts, &PlatformPolicy::built_in().ok()?);
    let mut onboarding = Onboarding::new(request, None);
    let (verdict, reasons, terms) = (decided.verdict, decided.reasons, decided.terms);
    onboarding.evaluated(RequestEvaluation { verdict, reasons, terms, proposal: None, short: None });
    let node =
        |name: &str| Some(ClaimedNode { node: name.parse().ok()?, gpus: Gpus(8), epoch: OwnerEpoch(1) });
    let nodes = vec![node("node-1")?, node("node-2")?];
    onboarding.claimed(NodeClaim { cluster: "eu-1".parse().ok()?, region: "eu".parse().ok()?, nodes });
    onboarding.layouts = vec!["all-disabled".into(), "all-disabled".into()];
    Some(onboarding)
}
