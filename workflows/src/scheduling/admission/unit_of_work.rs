//! A tenant's admission documents during one decision: each is loaded once, changed in memory and written at the end.

use crate::{
    policy::PolicyInForce,
    scheduling::admission::{
        AdmissionEffects, Rules, accounts::cohort_cell::CohortCell, apply_loans::LoanEdit, codes,
    },
    tenancy::{
        Account, Admission, Balance, Cohort, Entitlement, LastObservation, Loan, MonthlyUsage, NodeId,
        NodeUse, Occupancy, OpenLoans, QueuedWorkload, Resource, RunningList, Tenant, TenantId,
        UsageCounters, Workload, WorkspaceName, WorkspaceQueue, workspace_key,
    },
};
use engine::{ActionError, Entity, Undecided, View};
use std::{collections::BTreeMap, sync::Arc};
use store::Timestamp;

/// A document, and true if it must be written.
#[derive(Debug)]
struct CachedDocument<T> {
    value: T,
    changed: bool,
}

impl<T> CachedDocument<T> {
    fn old(value: T) -> Self {
        Self { value, changed: false }
    }

    fn change(&mut self) -> &mut T {
        self.changed = true;
        &mut self.value
    }
}

/// A tenant's admission documents.
#[derive(Debug)]
pub(crate) struct AdmissionTx {
    pub(super) now: Timestamp,
    pub(super) tenant: Tenant,
    pub(super) rules: Rules,
    pub(super) cohort: CohortCell,
    pub(super) occupancy: Option<Arc<Occupancy>>,
    pub(super) occupancy_changed: bool,
    /// The time of the latest observation of free GPUs.
    pub(super) seen_at: Option<Timestamp>,
    pub(super) edits: BTreeMap<u64, LoanEdit>,
    pub(super) decisions: Vec<Admission>,
    pub(super) effects: AdmissionEffects,
    usages: Vec<MonthlyUsage>,
    queues: BTreeMap<WorkspaceName, CachedDocument<WorkspaceQueue>>,
    workloads: BTreeMap<String, CachedDocument<Option<Workload>>>,
    nodes: BTreeMap<NodeId, CachedDocument<Option<NodeUse>>>,
    rosters: BTreeMap<(WorkspaceName, u8), CachedDocument<RunningList>>,
    loans: BTreeMap<Resource, CachedDocument<OpenLoans>>,
}

/// Returns the missing documents of several wants in one answer.
pub(super) fn together(wants: impl IntoIterator<Item = Result<(), Undecided>>) -> Result<(), Undecided> {
    let mut keys = Vec::new();
    for want in wants {
        match want {
            Ok(()) => {}
            Err(Undecided::Needs(more)) => keys.extend(more),
            Err(failed @ Undecided::Failed(_)) => return Err(failed),
        }
    }
    if keys.is_empty() { Ok(()) } else { Err(Undecided::Needs(keys)) }
}

/// Fails on documents that contradict each other.
pub(super) fn corrupt(problem: impl std::fmt::Display) -> Undecided {
    ActionError::permanent(codes::BOOKS_DIFFER, problem).into()
}

impl AdmissionTx {
    /// Opens the transaction of `tenant`. Requests the documents in `wants` together with its own.
    pub(super) fn open(
        view: &mut View,
        tenant: &TenantId,
        wants: impl IntoIterator<Item = Result<(), Undecided>>,
    ) -> Result<Self, Undecided> {
        let id = tenant.as_str();
        let policy = crate::policy::PlatformPolicy::NAME;
        let own = [
            view.prefetch::<Tenant>([id]),
            view.prefetch::<Cohort>([id]),
            view.prefetch::<Occupancy>([id]),
            view.prefetch::<LastObservation>([id]),
            view.prefetch::<PolicyInForce>([policy]),
            view.prefetch::<Entitlement>([id]),
        ];
        together(own.into_iter().chain(wants))?;
        let now = view.now();
        let cohort = view.get_shared::<Cohort>(id)?;
        let cohort = cohort.unwrap_or_else(|| Arc::new(Cohort::new(tenant.clone(), now)));
        let (cohort, usages) = CohortCell::open(cohort, view.get::<Entitlement>(id)?, now);
        Ok(Self {
            now,
            tenant: view.require::<Tenant>(id)?,
            rules: Rules::in_force(view)?,
            occupancy: view.get_shared::<Occupancy>(id)?,
            seen_at: view.get::<LastObservation>(id)?.map(|sighting| sighting.at),
            cohort,
            occupancy_changed: false,
            edits: BTreeMap::new(),
            decisions: Vec::new(),
            effects: AdmissionEffects::default(),
            usages,
            queues: BTreeMap::new(),
            workloads: BTreeMap::new(),
            nodes: BTreeMap::new(),
            rosters: BTreeMap::new(),
            loans: BTreeMap::new(),
        })
    }

    /// Returns a workspace's account.
    pub(super) fn account(&self, workspace: &WorkspaceName) -> Result<&Account, Undecided> {
        let problem = || {
            let problem = format!("workspace {workspace} of tenant {} has no account", self.tenant.id);
            ActionError::permanent(codes::UNKNOWN_WORKSPACE, problem)
        };
        Ok(self.cohort.accounts.get(workspace).ok_or_else(problem)?)
    }

    /// Returns a workspace's account for changes.
    pub(super) fn account_mut(&mut self, workspace: &WorkspaceName) -> Result<&mut Account, Undecided> {
        self.account(workspace)?;
        let missing = || corrupt(format!("the account of workspace {workspace} is missing"));
        self.cohort.accounts.get_mut(workspace).ok_or_else(missing)
    }

    /// Closes an account that is empty.
    pub(super) fn close(&mut self, workspace: &WorkspaceName) {
        let empty = self.cohort.accounts.get(workspace).is_some_and(|account| {
            let none = |balance: &Balance| balance.in_use() == 0 && balance.spent == UsageCounters::default();
            account.waiting == 0 && account.balances.values().all(none)
        });
        if empty {
            self.cohort.accounts.remove(workspace);
        }
    }

    /// Returns the queue of a workspace.
    pub(super) fn queue_of(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
    ) -> Result<&WorkspaceQueue, Undecided> {
        if !self.queues.contains_key(workspace) {
            let found = view.get::<WorkspaceQueue>(&workspace_key(&self.tenant.id, workspace))?;
            let (tenant, workspace) = (self.tenant.id.clone(), workspace.clone());
            let line =
                found.unwrap_or(WorkspaceQueue { tenant, workspace: workspace.clone(), waiting: Vec::new() });
            self.queues.insert(workspace, CachedDocument::old(line));
        }
        let missing = || corrupt(format!("the queue of workspace {workspace} is missing"));
        self.queues.get(workspace).map(|kept| &kept.value).ok_or_else(missing)
    }

    /// Returns the workloads of a loaded queue; empty if the queue is not loaded.
    pub(super) fn loaded_queue(&self, workspace: &WorkspaceName) -> &[QueuedWorkload] {
        self.queues.get(workspace).map_or(&[], |kept| &kept.value.waiting)
    }

    /// Changes the queue of a workspace and the copies in its account.
    pub(super) fn change_line(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        change: impl FnOnce(&mut WorkspaceQueue),
    ) -> Result<(), Undecided> {
        self.queue_of(view, workspace)?;
        let missing = || corrupt(format!("the queue of workspace {workspace} is missing"));
        let line = self.queues.get_mut(workspace).map(CachedDocument::change).ok_or_else(missing)?;
        change(line);
        let mut least = BTreeMap::new();
        for (resource, amount) in line.waiting.iter().flat_map(|waits| &waits.requests) {
            let known = least.entry(resource.clone()).or_insert(*amount);
            *known = (*known).min(*amount);
        }
        let waiting = u32::try_from(line.waiting.len()).unwrap_or(u32::MAX);
        let oldest = line.waiting.iter().map(|waits| waits.entered_at).min();
        let account = self.account_mut(workspace)?;
        (account.waiting, account.least, account.oldest) = (waiting, least, oldest);
        Ok(())
    }

    /// Returns a workload, if it exists.
    pub(super) fn workload(&mut self, view: &mut View, name: &str) -> Result<Option<&Workload>, Undecided> {
        if !self.workloads.contains_key(name) {
            let found = view.get::<Workload>(&Workload::key(&self.tenant.id, name))?;
            self.workloads.insert(name.to_owned(), CachedDocument::old(found));
        }
        Ok(self.workloads.get(name).and_then(|kept| kept.value.as_ref()))
    }

    /// Writes a workload, with its end time if it has ended.
    pub(super) fn put_workload(&mut self, workload: Workload) {
        let ended_at = workload.has_ended().then(|| workload.ended_at.unwrap_or(self.now));
        let workload = Workload { ended_at, ..workload };
        self.workloads.insert(workload.name.clone(), CachedDocument { value: Some(workload), changed: true });
    }

    /// Returns a workload that must exist.
    pub(super) fn need_workload(&mut self, view: &mut View, name: &str) -> Result<Workload, Undecided> {
        let missing = || corrupt(format!("a list names workload {name}, which does not exist"));
        self.workload(view, name)?.cloned().ok_or_else(missing)
    }

    /// Returns the usage of a node's GPUs; `None` for a node that the tenant never had.
    pub(super) fn node(&mut self, view: &mut View, id: &NodeId) -> Result<Option<&NodeUse>, Undecided> {
        if !self.nodes.contains_key(id) {
            let found = view.get::<NodeUse>(id.as_str())?.filter(|node| node.tenant == self.tenant.id);
            self.nodes.insert(id.clone(), CachedDocument::old(found));
        }
        Ok(self.nodes.get(id).and_then(|kept| kept.value.as_ref()))
    }

    /// Writes the usage of a node's GPUs; `None` removes the node.
    pub(super) fn keep_node(&mut self, id: &NodeId, node: Option<NodeUse>) {
        self.nodes.insert(id.clone(), CachedDocument { value: node, changed: true });
    }

    /// Returns one part of a workspace's list of running workloads.
    pub(super) fn running_list(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        part: u8,
    ) -> Result<&RunningList, Undecided> {
        self.loaded_running_list(view, workspace, part).map(|kept| &kept.value)
    }

    /// Returns the part of a workspace's list that contains a workload, for changes.
    pub(super) fn roster_mut(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        workload: &str,
    ) -> Result<&mut RunningList, Undecided> {
        self.loaded_running_list(view, workspace, RunningList::part_of(workload)).map(CachedDocument::change)
    }

    fn loaded_running_list(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        part: u8,
    ) -> Result<&mut CachedDocument<RunningList>, Undecided> {
        let key = (workspace.clone(), part);
        if !self.rosters.contains_key(&key) {
            let found = view.get::<RunningList>(&RunningList::key(&self.tenant.id, workspace, part))?;
            let (tenant, workspace) = (self.tenant.id.clone(), workspace.clone());
            let roster = found.unwrap_or(RunningList { tenant, workspace, part, running: BTreeMap::new() });
            self.rosters.insert(key.clone(), CachedDocument::old(roster));
        }
        let missing = || corrupt(format!("the list of workloads of workspace {workspace} is missing"));
        self.rosters.get_mut(&key).ok_or_else(missing)
    }

    /// Returns the open loans of a kind.
    pub(super) fn loans(&mut self, view: &mut View, resource: &Resource) -> Result<&OpenLoans, Undecided> {
        if !self.loans.contains_key(resource) {
            let found = view.get::<OpenLoans>(&OpenLoans::key(&self.tenant.id, resource))?;
            let (tenant, resource) = (self.tenant.id.clone(), resource.clone());
            let loans = found.unwrap_or(OpenLoans { tenant, resource: resource.clone(), open: Vec::new() });
            self.loans.insert(resource, CachedDocument::old(loans));
        }
        let missing = || corrupt(format!("the list of open loans of {resource} is missing"));
        self.loans.get(resource).map(|kept| &kept.value).ok_or_else(missing)
    }

    /// Writes the open loans of a kind.
    pub(super) fn keep_loans(&mut self, loans: OpenLoans) {
        self.loans.insert(loans.resource.clone(), CachedDocument { value: loans, changed: true });
    }

    /// Writes all changed documents and returns the effects.
    pub(super) fn save(mut self, view: &mut View) -> Result<AdmissionEffects, Undecided> {
        self.warn();
        let tenant = self.tenant.id.clone();
        let rows = self.edits.keys().map(|number| Loan::key(&tenant, *number));
        together([
            view.prefetch::<Cohort>([tenant.as_str()]),
            view.prefetch::<Loan>(rows),
            wanted(view, self.decisions.iter()),
            wanted(view, self.usages.iter()),
            wanted(view, changed(self.queues.values())),
            wanted(view, changed(self.rosters.values())),
            wanted(view, changed(self.loans.values())),
            wanted(view, changed(self.workloads.values()).flatten()),
            view.prefetch::<NodeUse>(self.nodes.keys().map(ToString::to_string)),
        ])?;
        self.save_loans(view)?;
        self.ask_for_starts(view)?;
        put(view, self.decisions.iter())?;
        put(view, self.usages.iter())?;
        put(view, changed(self.queues.values()))?;
        put(view, changed(self.rosters.values()))?;
        put(view, changed(self.loans.values()))?;
        put(view, changed(self.workloads.values()).flatten())?;
        for (id, kept) in self.nodes.iter().filter(|(_, kept)| kept.changed) {
            match &kept.value {
                Some(node) => view.put(node)?,
                None => view.delete::<NodeUse>(id.as_str())?,
            }
        }
        if let Some(occupancy) = self.occupancy.as_ref().filter(|_| self.occupancy_changed) {
            view.put_shared(occupancy)?;
        }
        if self.cohort.changed() {
            view.put_shared(self.cohort.shared())?;
        }
        Ok(self.effects)
    }

    fn save_loans(&self, view: &mut View) -> Result<(), Undecided> {
        for (number, edit) in &self.edits {
            let row = match &edit.opened {
                Some(opened) => Some(opened.clone()),
                None => view.get::<Loan>(&Loan::key(&self.tenant.id, *number))?,
            };
            let mut row =
                row.ok_or_else(|| corrupt(format!("loan {number} is listed, but does not exist")))?;
            if row.state.is_ended() {
                return Err(corrupt(format!("loan {number} is listed as open, but has ended")));
            }
            row.amount = edit.amount.unwrap_or(row.amount);
            row.state = edit.state.unwrap_or(row.state);
            row.ended_at = row.state.is_ended().then_some(self.now);
            view.put(&row)?;
        }
        Ok(())
    }

    /// Records soft thresholds that usage rose above, once each until they are armed again.
    fn warn(&mut self) {
        let soft = self.rules.soft.iter().take(16).copied().enumerate();
        let soft: Vec<_> = soft.map(|(bit, soft)| (1_u16 << bit, soft)).collect();
        if soft.is_empty() {
            return;
        }
        let mut flags = Vec::new();
        for (workspace, account) in &self.cohort.accounts {
            for (resource, balance) in &account.balances {
                let (used, nominal) = (balance.in_use(), balance.allowance.nominal);
                let reaches =
                    |share: u64| u128::from(used) * 1_000 >= u128::from(nominal) * u128::from(share);
                let mut warned = balance.warned;
                for (bit, soft) in &soft {
                    let told = warned & bit != 0;
                    if told && !reaches(soft.clear) {
                        warned &= !bit;
                    } else if !told && nominal > 0 && reaches(soft.at) {
                        warned |= bit;
                        self.effects.crossings.push(super::ThresholdCrossed {
                            tenant: self.tenant.id.clone(),
                            workspace: workspace.clone(),
                            resource: resource.clone(),
                            at: soft.at,
                            used,
                            nominal,
                        });
                    }
                }
                if warned != balance.warned {
                    flags.push((workspace.clone(), resource.clone(), warned));
                }
            }
        }
        for (workspace, resource, warned) in flags {
            let account = self.cohort.accounts.get_mut(&workspace);
            if let Some(balance) = account.and_then(|account| account.balances.get_mut(&resource)) {
                balance.warned = warned;
            }
        }
    }
}

fn changed<'a, T: 'a>(kept: impl Iterator<Item = &'a CachedDocument<T>>) -> impl Iterator<Item = &'a T> {
    kept.filter(|kept| kept.changed).map(|kept| &kept.value)
}

fn wanted<'a, T: Entity + 'a>(view: &View, all: impl Iterator<Item = &'a T>) -> Result<(), Undecided> {
    view.prefetch::<T>(all.map(Entity::id))
}

fn put<'a, T: Entity + 'a>(view: &mut View, all: impl Iterator<Item = &'a T>) -> Result<(), Undecided> {
    for entity in all {
        view.put(entity)?;
    }
    Ok(())
}
