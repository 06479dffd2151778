//! Checks a reclaim's fence against the account, which may have changed since the plan.

use crate::{
    scheduling::admission::{Fence, unit_of_work::AdmissionTx},
    tenancy::{AccountState, Beneficiary, Resource, WorkloadState, WorkspaceQueue, workspace_key},
};
use engine::{Undecided, View};
use std::collections::BTreeMap;

impl AdmissionTx {
    /// Returns why the planned victims may not be taken or would not be enough (I-11, I-12), or that a beneficiary no longer waits.
    pub(in crate::scheduling::admission) fn fence_problem(
        &mut self,
        view: &mut View,
        fence: &Fence,
        fresh: &[String],
        wanted: u64,
    ) -> Result<Option<String>, Undecided> {
        if let Some(why) = self.waits_no_more(view, fence)? {
            return Ok(Some(why));
        }
        if let Some(why) = self.fits_already(view, fence)? {
            return Ok(Some(why));
        }
        let before = self.cohort.clone();
        let objection = match self.may_not_go(view, fence, fresh)? {
            Some(why) => Some(why),
            None => self.shortfall(view, fence, wanted)?,
        };
        self.cohort = before;
        Ok(objection)
    }

    /// Returns the reason if a new reclaim names a beneficiary in another workspace that no longer waits. A running reclaim keeps its beneficiaries.
    fn waits_no_more(&mut self, view: &mut View, fence: &Fence) -> Result<Option<String>, Undecided> {
        if self.cohort.reclaims.contains_key(&fence.resource) {
            return Ok(None);
        }
        let keys = fence.others.iter().map(|other| workspace_key(&fence.tenant, &other.workspace));
        view.prefetch::<WorkspaceQueue>(keys)?;
        for Beneficiary { workspace, workload, .. } in &fence.others {
            let open =
                self.cohort.accounts.get(workspace).is_some_and(|it| it.admitting == AccountState::Open);
            let waits =
                open && self.queue_of(view, workspace)?.waiting.iter().any(|it| it.workload == *workload);
            if !waits {
                return Ok(Some(format!("{workload} is not queued in {workspace}")));
            }
        }
        Ok(None)
    }

    /// Returns the reason if the demand of a new reclaim fits on free GPUs, so that no eviction is needed.
    fn fits_already(&mut self, view: &mut View, fence: &Fence) -> Result<Option<String>, Undecided> {
        let begun = self.cohort.reclaims.contains_key(&fence.resource);
        let Some(name) = fence.workload.as_ref().filter(|_| !begun) else { return Ok(None) };
        let demand = self.need_workload(view, name)?;
        let lacking = self.lacking(view, &demand.workspace, &demand.requests, demand.together)?;
        let fits = !lacking.contains(&fence.resource);
        Ok(fits.then(|| format!("{} of {name} fits on free GPUs", fence.resource)))
    }

    /// Returns why a victim may not be taken. If all may be taken, removes them from the account.
    fn may_not_go(
        &mut self,
        view: &mut View,
        fence: &Fence,
        fresh: &[String],
    ) -> Result<Option<String>, Undecided> {
        let resource = &fence.resource;
        let ours = self.cohort.reclaims.get(resource).map(|reclaim| reclaim.victims.clone());
        for name in ours.iter().flatten().chain(&self.by_size(view, resource, fresh)?) {
            let Some(victim) = self.workload(view, name)?.cloned() else {
                return Ok(Some(format!("workload {name} does not exist")));
            };
            if !ours.as_ref().is_some_and(|ours| ours.contains(name)) {
                let beyond = self.account(&victim.workspace)?.balance(resource).over_nominal();
                let now = self.now;
                let mut open = self.loans(view, resource)?.open.iter();
                let protected = open.any(|loan| loan.workload == *name && now < loan.protected_until);
                if victim.state != WorkloadState::Admitted {
                    return Ok(Some(format!("{name} is not running")));
                }
                if !victim.preemptible || !self.tenant.allow_preemption {
                    return Ok(Some(format!("{name} may not be evicted")));
                }
                if victim.workspace != fence.workspace && beyond == 0 {
                    return Ok(Some(format!("{} is within its own quota", victim.workspace)));
                }
                if protected {
                    return Ok(Some(format!("the loan of {name} is still protected")));
                }
            }
            let amount = victim.requests.get(resource).copied().unwrap_or(0);
            self.use_less(&victim.workspace, resource, amount)?;
            if let Some(stock) = self.cohort.stock.get_mut(resource) {
                stock.free = stock.free.saturating_add(amount);
            }
        }
        Ok(None)
    }

    /// Sorts victims by size, smallest first. A plan takes each victim from a workspace above its own quota. A set has no order, but if a valid order exists,
    /// this is one.
    fn by_size(
        &mut self,
        view: &mut View,
        resource: &Resource,
        fresh: &[String],
    ) -> Result<Vec<String>, Undecided> {
        let mut sized = Vec::new();
        for name in fresh {
            let victim = self.workload(view, name)?;
            sized.push((victim.and_then(|victim| victim.requests.get(resource).copied()), name.clone()));
        }
        sized.sort();
        Ok(sized.into_iter().map(|(_, name)| name).collect())
    }

    /// Returns the beneficiaries for which the removed victims free too little.
    fn shortfall(
        &mut self,
        view: &mut View,
        fence: &Fence,
        wanted: u64,
    ) -> Result<Option<String>, Undecided> {
        let resource = &fence.resource;
        let first = !self.cohort.reclaims.contains_key(resource);
        let mut all = BTreeMap::from([(&fence.workspace, wanted)]);
        for other in fence.others.iter().filter(|_| first) {
            let sum = all.entry(&other.workspace).or_default();
            *sum = sum.saturating_add(other.wanted);
        }
        for (workspace, wanted) in all {
            let aside = self.account(workspace)?.balance(resource).in_transit;
            let mut could = self.earmarkable(view, workspace, resource)?;
            if first {
                // A workspace that now uses its full quota would borrow, and no victim is evicted for a loan.
                let balance = self.account(workspace)?.balance(resource);
                let uses = balance.used.saturating_sub(balance.borrowed).saturating_add(aside);
                could = could.min(balance.allowance.nominal.saturating_sub(uses));
            }
            could = could.saturating_add(aside);
            if could < wanted {
                let why = format!(
                    "the victims free only {could} of {wanted} {resource} of workspace {workspace}'s own quota"
                );
                return Ok(Some(why));
            }
            self.use_more(workspace, resource, wanted.saturating_sub(aside))?;
            if let Some(stock) = self.cohort.stock.get_mut(resource) {
                stock.free = stock.free.saturating_sub(wanted.saturating_sub(aside));
            }
        }
        Ok(None)
    }
}
