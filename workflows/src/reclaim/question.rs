//! What is asked of the planner for one reclaim.

use crate::{
    reclaim::{ReclaimCause, planned::ReclaimTerms},
    tenancy::{Resource, TenantId},
};
use std::collections::BTreeSet;

/// What is asked of the planner.
#[derive(Clone, Debug)]
pub(crate) struct PlanningQuery<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) resource: &'a Resource,
    pub(crate) cause: &'a ReclaimCause,
    /// Whether no plan beyond the guard is made.
    pub(crate) hard: bool,
    /// Workloads that were evicted and do not end.
    pub(crate) stuck: &'a BTreeSet<String>,
    /// The terms of an earlier plan.
    pub(crate) terms: Option<&'a ReclaimTerms>,
}
