//! The waiting line: who is admitted when something becomes free, in the very commit that frees it.
//!
//! Who stays within its own quota comes first, oldest first. Then those who borrow: the workspace that has borrowed least so
//! far this month, then the oldest. Nobody is polled: every release, and every change of what may be used, comes here.

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

/// The most that are admitted in one commit; [`AdmissionEffects::more`] says if more could be.
pub const MAX_ADMITTED_PER_COMMIT: usize = 32;

/// What a GPU on loan counts for beside what was borrowed so far, when it is decided who borrows next: so many
/// milliseconds of it (10 min). Keeps one workspace from taking all that becomes free at once.
const AHEAD: u128 = 10 * 60 * 1_000;

/// Who comes first: own before borrowed; then what was borrowed, then priority by age, then the oldest.
type AdmissionOrder<'a> = (bool, u128, Reverse<i64>, Timestamp, &'a str);

/// A workspace of which somebody could be admitted by what is counted, with what it could use.
type QueueCandidate = (WorkspaceName, BTreeMap<Resource, u64>);

/// Admits everybody whose turn it is: after [`AdmissionEffects::more`], by sweeps when a cool-down has ended, and after the platform was
/// seen again.
///
/// # Errors
/// What the view lacks.
pub fn admit_queued(view: &mut View, tenant: &TenantId) -> Result<AdmissionEffects, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    desk.admit_waiting(view)?;
    desk.save(view)
}

/// Every demand that waits inside its own quota and that no reclaim answers, for sweeps. Changes nothing.
///
/// # Errors
/// What the view lacks.
pub fn demands(view: &mut View, tenant: &TenantId) -> Result<Vec<ReclaimDemand>, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    desk.demands(view)?;
    Ok(desk.effects.demands)
}

/// Everybody who waits inside its own quota past the deadline of that, for sweeps. Changes nothing.
///
/// # Errors
/// What the view lacks.
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
                // What is in transit is for those who wait.
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

/// Returns true if a waiting workload lacks `resource`: quotas leave it too little, or what is free does not lie as it must. Only
/// then is there anything to call back for it.
///
/// # Errors
/// What the view lacks; a permanent `workspace.unknown`.
pub(crate) fn lacks(view: &mut View, workload: &Workload, resource: &Resource) -> Result<bool, Undecided> {
    let mut desk = AdmissionTx::open(view, &workload.tenant, [])?;
    let lacking = desk.lacking(view, &workload.workspace, &workload.requests, workload.together)?;
    Ok(lacking.contains(resource))
}

/// Returns the kind of which the tenant's nodes in service have too little for a workload, or too little together, even if nothing else
/// ran there. GPUs that others give back do not help it.
///
/// # Errors
/// What the view lacks.
pub(crate) fn too_large(view: &mut View, workload: &Workload) -> Result<Option<Resource>, Undecided> {
    let desk = AdmissionTx::open(view, &workload.tenant, [])?;
    Ok(desk.too_large(&workload.requests, workload.together))
}

impl AdmissionTx {
    /// Admits whose turn it is, and says what demands remain.
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

    /// The workspaces of which somebody could be admitted by what is counted, their lines read.
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

    /// Those that could be admitted by what is counted and have not been passed over, in their turn.
    fn in_turn(
        &self,
        hopes: &[QueueCandidate],
        passed: &Skipped,
    ) -> Result<Vec<(WorkspaceName, QueuedWorkload)>, Undecided> {
        // What a reclaim serves has GPUs set aside already, and is admitted to these alone: never to as many again.
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

    /// What a workspace could use of each resource, and of GPUs no more than is free.
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

    /// The first of each line inside its own quota that lacks a kind which is not being reclaimed, where somebody else uses more
    /// than its own: each is a demand. A request that fits on what is free is none, whatever else it waits for.
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

    /// Those that wait in a line inside its workspace's own quota and lack some of `kinds`, each with what of it is called back.
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

    /// What of `kinds` is called back for one that waits: nothing if the nodes in service are too small for it, although its promise
    /// holds. `None` if it lacks none of them.
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

    /// By kind of GPU that is not being reclaimed: the workspaces that use more than their own quota.
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

/// Whether there is enough of each.
fn enough(there: &BTreeMap<Resource, u64>, asked: &BTreeMap<Resource, u64>) -> bool {
    asked.iter().all(|(resource, amount)| there.get(resource).is_some_and(|there| amount <= there))
}

/// Whether a workspace would use no more than its own with these amounts more.
fn inside(account: &Account, requests: &Amounts) -> bool {
    requests.iter().all(|(resource, amount)| {
        let balance = account.balance(resource);
        balance.in_use().saturating_add(*amount) <= balance.allowance.nominal
    })
}

/// Whether one who waits would use more than its workspace's own.
fn borrows(account: &Account, waits: &QueuedWorkload) -> bool {
    waits.requests.keys().any(|resource| borrows_of(account, waits, resource))
}

/// The same of one resource.
pub(super) fn borrows_of(account: &Account, waits: &QueuedWorkload, resource: &Resource) -> bool {
    let (balance, amount) = (account.balance(resource), waits.requests.get(resource).copied().unwrap_or(0));
    balance.in_use().saturating_add(amount) > balance.allowance.nominal
}
