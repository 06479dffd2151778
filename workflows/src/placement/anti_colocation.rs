//! Classes of workspaces that policy keeps in different clusters (S-14).

use super::{Candidate, Constraints};
use crate::tenancy::{RegionId, WorkspaceClass};
use serde::{Deserialize, Serialize};

/// A class of the tenant, and a class that may not be in the same cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassesApart {
    /// The region; `None` for every region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionId>,
    /// The class of the tenant.
    pub own: WorkspaceClass,
    /// The other class.
    pub other: WorkspaceClass,
}

/// Returns why the classes of a tenant and of a cluster may not meet, if so.
pub(super) fn beside_a_class_kept_apart(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    let here = |rule: &&ClassesApart| rule.region.as_ref().is_none_or(|region| *region == candidate.region);
    let is_own = |class| constraints.apart.iter().any(|rule| rule.own == class);
    let met = constraints.apart.iter().filter(here);
    // A rule for one class separates tenants, not the workspaces of one tenant, which share its cluster.
    let mut met = met.filter(|rule| {
        candidate.classes.contains(&rule.other) || (rule.own != rule.other && is_own(rule.other))
    });
    let rule = met.next()?;
    let verb = if candidate.classes.contains(&rule.other) { "runs" } else { "would also run" };
    let (other, own) = (<&str>::from(rule.other), <&str>::from(rule.own));
    Some(format!("{verb} {other}, kept apart from {own}"))
}
