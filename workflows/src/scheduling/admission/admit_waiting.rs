//! Admits queued workloads when GPUs or quota become free, in the commit that frees them.
//!
//! Workloads within their workspace's own quota are admitted first, oldest first. Then borrowers are admitted: first the workspace that has borrowed least this
//! month, then the oldest workload. There is no polling: every release and every change of an allowance calls this module.

use crate::{
    scheduling::admission::{
        AdmissionEffects, ReclaimDemand, decision::decide, skipped::Skipped, unit_of_work::AdmissionTx,
    },
    tenancy::{
        Account, AdmissionVerdict, Amounts, Balance, QueuedWorkload, Resource, TenantId, Workload,
        WorkspaceName, WorkspaceQueue, workspace_key,
    },
};
use engine::{Undecided, View};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use store::Timestamp;

/// The most workloads that one commit admits. [`AdmissionEffects::more`] is true if more could be admitted.
pub const MAX_ADMITTED_PER_COMMIT: usize = 32;

/// Weight of a GPU on loan when borrowers are ordered: it counts as 10 min of past borrowing, in milliseconds. Keeps one workspace from taking all GPUs that
/// become free at once.
const AHEAD: u128 = 10 * 60 * 1_000;

/// Order of admission: own quota before borrowed, then the amount borrowed, then aged priority, then the oldest.
type AdmissionOrder<'a> = (bool, u128, Reverse<i64>, Timestamp, &'a str);

/// A workspace with queued workloads that quota could admit, and the amounts that it could use.
type QueueCandidate = (WorkspaceName, BTreeMap<Resource, u64>);

/// Admits all workloads that can be admitted now. Called after [`AdmissionEffects::more`], by sweeps when a cool-down has ended, and after a new observation of
/// the platform.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn admit_queued(view: &mut View, tenant: &TenantId) -> Result<AdmissionEffects, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    desk.admit_waiting(view)?;
    desk.save(view)
}

/// Returns every workload that waits within its own quota and has no reclaim yet. Called by sweeps. Changes nothing.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn demands(view: &mut View, tenant: &TenantId) -> Result<Vec<ReclaimDemand>, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    desk.demands(view)?;
    Ok(desk.effects.demands)
}

/// Returns every workload that waits within its own quota past its deadline. Called by sweeps. Changes nothing.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn past_deadline(view: &mut View, tenant: &TenantId) -> Result<Vec<ReclaimDemand>, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    let waiting = desk.cohort.accounts.iter().filter(|(_, account)| account.waiting > 0);
    let waiting: Vec<WorkspaceName> = waiting.map(|(name, _)| name.clone()).collect();
    view.prefetch::<WorkspaceQueue>(waiting.iter().map(|name| workspace_key(tenant, name)))?;
    let mut late = Vec::new();
    for workspace in &waiting {
        desk.queue_of(view, workspace)?;
        let account = desk.account(workspace)?;
        for waits in desk.loaded_queue(workspace).iter().filter(|waits| waits.demanded_at.is_some()) {
            for (resource, wanted) in &waits.requests {
                let balance = account.balance(resource);
                // GPUs in transit are reserved for queued workloads.
                let used = balance.in_use().saturating_sub(balance.in_transit);
                let demand = desk.demand(workspace, account, waits, resource, *wanted);
                let inside = used.saturating_add(*wanted) <= balance.allowance.nominal;
                if resource.gpu().is_some() && inside && demand.deadline < desk.now {
                    late.push(demand);
                }
            }
        }
    }
    Ok(late)
}

/// Returns true if a waiting workload lacks `resource`, because quota is too small or the free GPUs are on the wrong nodes. A reclaim helps only then.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `workspace.unknown`.
pub(crate) fn lacks(view: &mut View, workload: &Workload, resource: &Resource) -> Result<bool, Undecided> {
    let mut desk = AdmissionTx::open(view, &workload.tenant, [])?;
    let lacking = desk.lacking(view, &workload.workspace, &workload.requests, workload.together)?;
    Ok(lacking.contains(resource))
}

/// Returns the kind for which the tenant's nodes in service are too small, in sum or per node, even if they were empty. A reclaim does not help such a
/// workload.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub(crate) fn too_large(view: &mut View, workload: &Workload) -> Result<Option<Resource>, Undecided> {
    let desk = AdmissionTx::open(view, &workload.tenant, [])?;
    Ok(desk.too_large(&workload.requests, workload.together))
}

impl AdmissionTx {
    /// Admits queued workloads in order and records the remaining demands.
    pub(super) fn admit_waiting(&mut self, view: &mut View) -> Result<(), Undecided> {
        self.top_up(view)?;
        self.serve_others(view)?;
        let mut passed = Skipped::default();
        let mut hopes = self.queue_candidates(view)?;
        let mut turns = self.in_turn(&hopes, &passed)?;
        self.prefetch_admissions(view, &turns)?;
        turns.reverse();
        let mut woken = 0;
        loop {
            let Some((workspace, waits)) = turns.pop() else {
                turns = self.in_turn(&hopes, &passed)?;
                turns.reverse();
                if turns.is_empty() {
                    break;
                }
                continue;
            };
            if passed.contains(&workspace, &waits, self.account(&workspace)?) {
                continue;
            }
            if woken == MAX_ADMITTED_PER_COMMIT {
                self.effects.more = true;
                break;
            }
            if let Some((resource, ahead)) = self.is_behind(view, &workspace, &waits)? {
                passed.behind(&workspace, &resource, ahead);
                continue;
            }
            let workload = self.need_workload(view, &waits.workload)?;
            let decided = self.decide(
                view,
                &workload,
                decide::DecisionOrigin::Queued { cooling_until: waits.cooling_until },
            )?;
            if decided.admission.answer == AdmissionVerdict::Admit {
                self.change_line(view, &workspace, |line| {
                    line.waiting.retain(|other| other.workload != waits.workload);
                })?;
                let admission = self.admit(view, workload, decided)?;
                self.effects.admitted.push(admission);
                woken += 1;
                passed.admitted();
                turns.clear();
                hopes = self.queue_candidates(view)?;
            } else {
                passed.refused(&workspace, waits, &decided.admission.weighed);
            }
        }
        self.demands(view)
    }

    /// Returns the workspaces with queued workloads that quota could admit. Loads their queues.
    fn queue_candidates(&mut self, view: &mut View) -> Result<Vec<QueueCandidate>, Undecided> {
        let mut hopes: Vec<QueueCandidate> = Vec::new();
        for (name, account) in self.cohort.accounts.iter().filter(|(_, account)| account.waiting > 0) {
            let there = self.available_amounts(name, account.least.keys());
            if enough(&there, &account.least) {
                hopes.push((name.clone(), there));
            }
        }
        view.prefetch::<WorkspaceQueue>(hopes.iter().map(|(name, _)| workspace_key(&self.tenant.id, name)))?;
        for (workspace, there) in &mut hopes {
            self.queue_of(view, workspace)?;
            let waiting = self.loaded_queue(workspace).iter();
            let asked: BTreeSet<_> = waiting.flat_map(|waits| waits.requests.keys()).collect();
            let more = self
                .available_amounts(workspace, asked.into_iter().filter(|asked| !there.contains_key(*asked)));
            there.extend(more);
        }
        Ok(hopes)
    }

    /// Returns the workloads that quota could admit and that were not skipped, in admission order.
    fn in_turn(
        &self,
        hopes: &[QueueCandidate],
        passed: &Skipped,
    ) -> Result<Vec<(WorkspaceName, QueuedWorkload)>, Undecided> {
        // GPUs are earmarked for the beneficiaries of a reclaim. They are admitted only to these GPUs, never to others as well.
        let served: BTreeSet<String> = self
            .cohort
            .reclaims
            .values()
            .flat_map(|reclaim| reclaim.beneficiaries().map(|served| served.workload))
            .collect();
        let mut candidates = Vec::new();
        for (workspace, there) in hopes {
            let account = self.account(workspace)?;
            for waits in self.loaded_queue(workspace).iter().filter(|waits| enough(there, &waits.requests)) {
                let borrows = borrows(account, waits);
                let barred = borrows && (self.cools(waits) || !self.may_borrow(account, waits));
                if !barred && !served.contains(&waits.workload) && !passed.contains(workspace, waits, account)
                {
                    candidates.push((self.admission_order(account, waits, borrows), workspace, waits));
                }
            }
        }
        candidates.sort_by_key(|(turn, _, _)| *turn);
        candidates.truncate(MAX_ADMITTED_PER_COMMIT);
        Ok(candidates.into_iter().map(|(_, workspace, waits)| (workspace.clone(), waits.clone())).collect())
    }

    /// Returns the amounts that a workspace could use, limited to free GPUs.
    fn available_amounts<'a>(
        &self,
        workspace: &WorkspaceName,
        resources: impl Iterator<Item = &'a Resource>,
    ) -> BTreeMap<Resource, u64> {
        let there = |resource: &Resource| {
            let available = self.cohort.available(workspace, resource);
            let free = self.cohort.stock.get(resource).map_or(0, |stock| stock.free);
            if resource.gpu().is_some() { available.min(free) } else { available }
        };
        resources.map(|resource| (resource.clone(), there(resource))).collect()
    }

    fn admission_order<'a>(
        &self,
        account: &Account,
        waits: &'a QueuedWorkload,
        borrows: bool,
    ) -> AdmissionOrder<'a> {
        let gpus = account.balances.iter().filter(|(resource, _)| resource.gpu().is_some());
        let had = |(_, balance): (&Resource, &Balance)| {
            self.cohort.borrowed(balance) + u128::from(balance.borrowed) * AHEAD
        };
        let had = if borrows { gpus.map(had).sum() } else { 0 };
        let raised = self.rules.aged_priority(self.now.since(waits.entered_at)).0;
        let priority = i64::from(waits.priority) + i64::from(raised);
        (borrows, had, Reverse(priority), waits.since, waits.workload.as_str())
    }

    /// Records a demand for the first workload of each queue within its own quota that lacks a kind without a reclaim, if another workspace uses more than its
    /// own quota. A request that fits on the free GPUs is not a demand.
    pub(super) fn demands(&mut self, view: &mut View) -> Result<(), Undecided> {
        let beyond = self.beyond_own_quota();
        let callable = |name: &WorkspaceName| -> BTreeSet<Resource> {
            let others = |users: &BTreeSet<WorkspaceName>| users.iter().any(|user| user != name);
            beyond.iter().filter(|(_, users)| others(users)).map(|(kind, _)| kind.clone()).collect()
        };
        let demanding = |(name, account): (&WorkspaceName, &Account)| {
            let kinds = callable(name);
            let lent = account.least.keys().any(|resource| kinds.contains(resource));
            let open = account.admitting == crate::tenancy::AccountState::Open;
            let demands = account.waiting > 0 && open && lent && inside(account, &account.least);
            demands.then(|| (name.clone(), kinds))
        };
        let demanding: Vec<_> = self.cohort.accounts.iter().filter_map(demanding).collect();
        let mut found: BTreeMap<Resource, ReclaimDemand> = BTreeMap::new();
        for (workspace, kinds) in demanding {
            let unmet = self.unmet(view, &workspace, &kinds)?;
            let account = self.account(&workspace)?;
            for (waits, lacking) in &unmet {
                for resource in lacking {
                    let wanted = waits.requests.get(resource).copied().unwrap_or(0);
                    let demand = self.demand(&workspace, account, waits, resource, wanted);
                    let order =
                        |demand: &ReclaimDemand| (demand.deadline, demand.since, demand.workload.clone());
                    if found.get(resource).is_none_or(|other| order(&demand) < order(other)) {
                        found.insert(resource.clone(), demand);
                    }
                }
            }
            let first: BTreeSet<&String> = unmet.iter().map(|(waits, _)| &waits.workload).collect();
            if unmet.iter().any(|(waits, _)| waits.demanded_at.is_none()) {
                let now = self.now;
                self.change_line(view, &workspace, |line| {
                    for waits in line.waiting.iter_mut().filter(|waits| first.contains(&waits.workload)) {
                        waits.demanded_at = waits.demanded_at.or(Some(now));
                    }
                })?;
            }
        }
        self.effects.demands = found.into_values().collect();
        Ok(())
    }

    /// Returns the queued workloads within their workspace's own quota that lack some of `kinds`, each with the kinds to reclaim.
    fn unmet(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        kinds: &BTreeSet<Resource>,
    ) -> Result<Vec<(QueuedWorkload, BTreeSet<Resource>)>, Undecided> {
        self.queue_of(view, workspace)?;
        let account = self.account(workspace)?;
        let asks = |waits: &&QueuedWorkload| {
            let mut some = waits.requests.iter().filter(|(_, amount)| **amount > 0);
            inside(account, &waits.requests) && some.any(|(resource, _)| kinds.contains(resource))
        };
        let waiting: Vec<_> = self.loaded_queue(workspace).iter().filter(asks).cloned().collect();
        let mut known: BTreeMap<(Amounts, u64), Option<BTreeSet<Resource>>> = BTreeMap::new();
        let mut unmet = Vec::new();
        for waits in waiting {
            let shape = (waits.requests.clone(), waits.together);
            let wanted = match known.get(&shape) {
                Some(wanted) => wanted.clone(),
                None => self.called_back_for(view, workspace, &waits, kinds)?,
            };
            known.insert(shape, wanted.clone());
            unmet.extend(wanted.map(|wanted| (waits, wanted)));
        }
        Ok(unmet)
    }

    /// Returns the kinds among `kinds` to reclaim for a queued workload; empty if the nodes in service are too small for it. `None` if it lacks none of them.
    fn called_back_for(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        waits: &QueuedWorkload,
        kinds: &BTreeSet<Resource>,
    ) -> Result<Option<BTreeSet<Resource>>, Undecided> {
        let lacking = self.lacking(view, workspace, &waits.requests, waits.together)?;
        let lacking: BTreeSet<Resource> = lacking.intersection(kinds).cloned().collect();
        let too_large = self.too_large(&waits.requests, waits.together).is_some();
        Ok((!lacking.is_empty()).then(|| if too_large { BTreeSet::new() } else { lacking }))
    }

    /// Returns the workspaces above their own quota, by kind of GPU without a reclaim.
    fn beyond_own_quota(&self) -> BTreeMap<Resource, BTreeSet<WorkspaceName>> {
        let mut beyond: BTreeMap<Resource, BTreeSet<WorkspaceName>> = BTreeMap::new();
        for (name, account) in &self.cohort.accounts {
            let over = account.balances.iter().filter(|(resource, balance)| {
                resource.gpu().is_some()
                    && balance.over_nominal() > 0
                    && !self.cohort.reclaims.contains_key(*resource)
            });
            for (resource, _) in over {
                beyond.entry(resource.clone()).or_default().insert(name.clone());
            }
        }
        beyond
    }

    fn demand(
        &self,
        workspace: &WorkspaceName,
        account: &Account,
        waits: &QueuedWorkload,
        resource: &Resource,
        wanted: u64,
    ) -> ReclaimDemand {
        let promises = || account.active_reservations(resource, self.now);
        let deadline = promises().map(|promise| promise.reclaim_deadline).min();
        let deadline = deadline.unwrap_or(self.rules.reclaim_deadline);
        let grace = promises().map(|promise| promise.grace).min().unwrap_or(self.rules.grace);
        ReclaimDemand {
            tenant: self.tenant.id.clone(),
            workspace: workspace.clone(),
            workload: waits.workload.clone(),
            resource: resource.clone(),
            wanted,
            since: waits.demanded_at.unwrap_or(self.now),
            deadline: waits.demanded_at.unwrap_or(self.now).after(deadline),
            grace,
        }
    }
}

/// Returns true if every requested amount is available.
fn enough(there: &BTreeMap<Resource, u64>, asked: &BTreeMap<Resource, u64>) -> bool {
    asked.iter().all(|(resource, amount)| there.get(resource).is_some_and(|there| amount <= there))
}

/// Returns true if a workspace stays within its own quota with these additional amounts.
fn inside(account: &Account, requests: &Amounts) -> bool {
    requests.iter().all(|(resource, amount)| {
        let balance = account.balance(resource);
        balance.in_use().saturating_add(*amount) <= balance.allowance.nominal
    })
}

/// Returns true if a queued workload would use more than its workspace's own quota.
fn borrows(account: &Account, waits: &QueuedWorkload) -> bool {
    waits.requests.keys().any(|resource| borrows_of(account, waits, resource))
}

/// Same as `borrows`, for one resource.
pub(super) fn borrows_of(account: &Account, waits: &QueuedWorkload, resource: &Resource) -> bool {
    let (balance, amount) = (account.balance(resource), waits.requests.get(resource).copied().unwrap_or(0));
    balance.in_use().saturating_add(amount) > balance.allowance.nominal
}
