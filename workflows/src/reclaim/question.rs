//! The input of the planner for one reclaim.

use crate::{
    reclaim::{ReclaimCause, planned::ReclaimTerms},
    tenancy::{Resource, TenantId},
};
use std::collections::BTreeSet;

/// The input of the planner.
#[derive(Clone, Debug)]
pub(crate) struct PlanningQuery<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) resource: &'a Resource,
    pub(crate) cause: &'a ReclaimCause,
    /// True if plans beyond the guard are rejected.
    pub(crate) hard: bool,
    /// Evicted workloads that do not end.
    pub(crate) stuck: &'a BTreeSet<String>,
    /// The terms of an earlier plan.
    pub(crate) terms: Option<&'a ReclaimTerms>,
}
