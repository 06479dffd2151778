//! The kinds of GPU that a new workload cannot get: kinds that policy forbids, and models that do not exist.
//!
//! Called once for a new request. Invariant: the result is that of [`decide_permission`], which `policy explain` and the examples show. Borrowing is decided
//! later by the same rules, once it is known to be necessary.

use crate::{
    policy::{
        self, PlatformPolicy, PolicyRef, Ratio,
        decisions::{PermissionFacts, Sharing, decide_permission},
    },
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::{GpuKind, GpuModel, Isolation, RegionId, Resource, Workload},
};
use engine::{Undecided, View};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Recently read policies. A version never changes.
static READ: Mutex<Vec<Arc<PlatformPolicy>>> = Mutex::new(Vec::new());
/// The number of cached policies.
const KEPT: usize = 4;
/// The largest amount passed to a decision. The rules for whole GPUs do not depend on the amount.
const MOST: u64 = 1_000_000;

/// Returns the policy in force, which has the version `reference`.
fn in_force(view: &mut View, reference: &PolicyRef) -> Result<Arc<PlatformPolicy>, Undecided> {
    if let Ok(kept) = READ.lock()
        && let Some(policy) = kept.iter().find(|policy| policy.reference == *reference)
    {
        return Ok(policy.clone());
    }
    let policy = Arc::new(policy::in_force(view)?);
    if let Ok(mut kept) = READ.lock() {
        kept.insert(0, policy.clone());
        kept.truncate(KEPT);
    }
    Ok(policy)
}

impl AdmissionTx {
    /// Returns the kinds of GPU that policy forbids for a new workload, each with the reason.
    pub(in crate::scheduling::admission) fn refused_kinds(
        &self,
        view: &mut View,
        workload: &Workload,
    ) -> Result<BTreeMap<Resource, String>, Undecided> {
        let mut refused = BTreeMap::new();
        if workload.requests.keys().all(|resource| resource.gpu().is_none()) {
            return Ok(refused);
        }
        let policy = in_force(view, &self.rules.policy)?;
        let region = self.occupancy.as_deref().map(|nodes| nodes.region.clone());
        for (resource, amount) in &workload.requests {
            let Some(kind) = resource.gpu() else { continue };
            if let Some(unknown) =
                policy.gpu_models.no_model(&kind.model).filter(|_| !self.knows(&kind.model))
            {
                refused.insert(resource.clone(), format!("requests: {unknown}"));
                continue;
            }
            // A tenant without nodes has no GPUs yet. Its request waits for them, or is impossible anyway.
            let Some(region) = &region else { continue };
            let facts = self.permission(workload, resource, kind, *amount, region)?;
            let ruling = decide_permission(&facts, &policy);
            let why: Vec<String> = ruling.failed_rules().map(crate::policy::Reason::sentence).collect();
            if !why.is_empty() {
                refused.insert(resource.clone(), why.join("; "));
            }
        }
        Ok(refused)
    }

    /// Returns true if the tenant has GPUs of a model or a quota of them. Then the model exists, even if policy does not list it.
    fn knows(&self, model: &GpuModel) -> bool {
        let quotas = self.cohort.accounts.values().flat_map(|account| account.balances.keys());
        let mut kinds = self.cohort.stock.keys().chain(quotas).filter_map(Resource::gpu);
        kinds.any(|kind| kind.model == *model)
    }

    fn permission(
        &self,
        workload: &Workload,
        resource: &Resource,
        kind: &GpuKind,
        amount: u64,
        region: &RegionId,
    ) -> Result<PermissionFacts, Undecided> {
        // A tenant whose GPUs are partitioned agreed to that earlier. Free room decides which workspaces share one GPU. Kinds that the tenant had before stay
        // listed with 0 pieces.
        let has = self.cohort.stock.get(resource).is_some_and(|stock| stock.pieces > 0);
        let is_cut = kind.profile.is_some() && has;
        let pieces = u32::try_from(amount.min(MOST)).unwrap_or(u32::MAX);
        Ok(PermissionFacts {
            isolation: if is_cut { Isolation::SharedSlices } else { self.tenant.isolation },
            allow_preemption: self.tenant.allow_preemption,
            allow_gpu_sharing: is_cut || self.tenant.allow_gpu_sharing,
            // The tenant agreed to the partition of these GPUs earlier.
            multitenancy: self.tenant.multitenancy.filter(|_| !is_cut),
            class: self.account(&workload.workspace)?.class,
            workload: workload.class,
            preemptible: workload.preemptible,
            model: kind.model.clone(),
            count: Ratio::thousandths(pieces.saturating_mul(1_000)),
            sharing: kind.profile.as_ref().map_or(Sharing::Full, |profile| Sharing::Mig(profile.to_string())),
            already_cut: is_cut,
            borrows: false,
            lender: None,
            region: region.clone(),
        })
    }
}
