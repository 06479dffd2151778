//! Examples of decreases that together contain every action: on Kubernetes, on Slurm, and without a decision.

use super::QuotaDecrease;
use crate::{
    quota_change::{QuotaRequest, example_terms},
    tenancy::ClusterKind,
};
use std::sync::OnceLock;

const REQUEST: &str = "
tenant: example
workspace: research
resource: gpu/H100
to: 4
reason: an example
";

/// Created once, because the engine requests examples whenever it rebuilds an undo.
pub(super) fn all() -> Vec<QuotaDecrease> {
    static MADE: OnceLock<Vec<QuotaDecrease>> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> Vec<QuotaDecrease> {
    let Ok(request) = QuotaRequest::from_yaml(REQUEST) else { return Vec::new() };
    let kinds = [ClusterKind::Kubernetes, ClusterKind::Slurm];
    let decided = kinds.into_iter().filter_map(|kind| {
        let terms = Some(example_terms(kind)?);
        Some(QuotaDecrease { terms, ..QuotaDecrease::new(request.clone()) })
    });
    decided.chain([QuotaDecrease::new(request.clone())]).collect()
}
