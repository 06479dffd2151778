//! Examples of increases that together contain every action: on Kubernetes with nodes to claim, on Slurm, and without a decision.

use super::QuotaIncrease;
use crate::{
    ledger::{ClaimedNode, NodeClaim},
    quota_change::{QuotaRequest, example_terms},
    tenancy::{ClusterKind, Gpus, OwnerEpoch},
};
use std::sync::OnceLock;

const REQUEST: &str = "
tenant: example
workspace: research
resource: gpu/H100
by: 8
reason: an example
";

/// Created once, because the engine requests examples whenever it rebuilds an undo.
pub(super) fn all() -> Vec<QuotaIncrease> {
    static MADE: OnceLock<Vec<QuotaIncrease>> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> Vec<QuotaIncrease> {
    let Ok(request) = QuotaRequest::from_yaml(REQUEST) else { return Vec::new() };
    let kinds = [ClusterKind::Kubernetes, ClusterKind::Slurm];
    let decided = kinds.into_iter().filter_map(|kind| example(&request, kind));
    decided.chain([QuotaIncrease::new(request.clone())]).collect()
}

fn example(request: &QuotaRequest, kind: ClusterKind) -> Option<QuotaIncrease> {
    let mut increase = QuotaIncrease::new(request.clone());
    increase.terms = Some(example_terms(kind)?);
    let node = ClaimedNode { node: "node-1".parse().ok()?, gpus: Gpus(8), epoch: OwnerEpoch(1) };
    increase.record_hold(Some(NodeClaim {
        cluster: "eu-1".parse().ok()?,
        region: "eu".parse().ok()?,
        nodes: vec![node],
    }));
    increase.layouts = vec!["all-disabled".into()];
    Some(increase)
}
