//! Converts the account into the planner's snapshot: a tenant is the root cohort, its workspaces are the leaves.
//!
//! Only workspaces above their nominal quota can lose GPUs to others (I-12), and the demand's own workspace if policy allows it. For all others the sum is
//! enough. So a plan reads only the lists of borrowers.

use crate::{
    policy::PlatformPolicy,
    reclaim::planner_settings::{millis, preemption},
    scheduling::planner::{
        self, Amounts, Demand, DemandPiece, Node, PreemptPolicy, Preemption, Quota, ResourceKind, Sharing,
        Snapshot, Unknown, WorkloadPart,
    },
    tenancy::{
        Account, ActiveReclaim, Checkpoint, Cohort, GpuUser, NodeUse, Occupancy, OpenLoans, Resource,
        RunningEntry, RunningList, TenantId, Workload, WorkspaceName,
    },
};
use engine::{ActionError, Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// The code of documents that contradict each other.
pub(super) const BOOKS: &str = "ledger.books_differ";

fn differ(error: &Unknown) -> Undecided {
    ActionError::permanent(BOOKS, error.to_string()).into()
}

/// Returns the planner's name for a resource.
pub(super) fn kind(resource: &Resource) -> Option<ResourceKind> {
    match resource {
        Resource::Gpu(kind) => Some(match &kind.profile {
            None => ResourceKind::gpu(kind.model.as_str()),
            Some(profile) => ResourceKind::slice(kind.model.as_str(), profile.as_str()),
        }),
        Resource::CpuMilli => Some(ResourceKind::cpu()),
        Resource::MemoryMib => Some(ResourceKind::memory()),
        // These are never lent, so they cannot be reclaimed.
        Resource::StorageGib | Resource::Pods => None,
    }
}

fn amounts(resources: &crate::tenancy::Amounts) -> Amounts {
    resources.iter().filter_map(|(resource, amount)| Some((kind(resource)?, *amount))).collect()
}

/// Returns all running workloads of a workspace.
pub(super) fn running(
    view: &mut View,
    tenant: &TenantId,
    workspace: &WorkspaceName,
) -> Result<Vec<(String, RunningEntry)>, Undecided> {
    view.prefetch::<RunningList>(RunningList::keys(tenant, workspace))?;
    let mut all = Vec::new();
    for key in RunningList::keys(tenant, workspace) {
        all.extend(view.get::<RunningList>(&key)?.into_iter().flat_map(|roster| roster.running));
    }
    Ok(all)
}

/// Returns the snapshot of the tenant's account, with the possible victims for `demand`.
pub(super) fn snapshot(
    view: &mut View,
    cohort: &Cohort,
    demand: &Workload,
    policy: &PlatformPolicy,
) -> Result<Snapshot, Undecided> {
    let root = cohort.tenant.as_str();
    let mut snapshot = Snapshot::new();
    let min_runtime = millis(policy.lending.min_runtime);
    let sharing = Sharing { min_runtime: (min_runtime > 0).then_some(min_runtime), ..Sharing::default() };
    snapshot.add_cohort(root, None, Sharing::default()).map_err(|e| differ(&e))?;
    for (resource, stock) in &cohort.stock {
        if let Some(kind) = kind(resource) {
            snapshot.set_owned(kind, stock.pieces);
        }
    }
    for resource in cohort.stock.keys().filter(|resource| resource.gpu().is_some()) {
        let nominal = cohort.pool(resource).saturating_add(beyond_quota(cohort, demand, resource));
        let Some(kind) = kind(resource).filter(|_| nominal > 0) else { continue };
        let quota = Quota { nominal, borrowing_limit: None, lending_limit: None };
        snapshot.set_cohort_quota(root, &kind, quota).map_err(|e| differ(&e))?;
    }
    let own = preemption(policy);
    let chosen_from = |name: &WorkspaceName, account: &Account| {
        let within = *name == demand.workspace && own.within_workspace != PreemptPolicy::Never;
        within || demand.requests.keys().any(|resource| account.balance(resource).over_nominal() > 0)
    };
    let listed: Vec<&WorkspaceName> = cohort
        .accounts
        .iter()
        .filter(|(name, account)| chosen_from(name, account))
        .map(|(name, _)| name)
        .collect();
    view.prefetch::<RunningList>(listed.iter().flat_map(|name| RunningList::keys(&cohort.tenant, name)))?;
    for (name, account) in &cohort.accounts {
        snapshot.add_workspace(name.as_str(), Some(root), own, sharing).map_err(|e| differ(&e))?;
        for (resource, balance) in &account.balances {
            let Some(kind) = kind(resource) else { continue };
            let allowed = balance.allowance;
            let quota = Quota {
                nominal: allowed.nominal,
                borrowing_limit: allowed.borrowing_limit,
                lending_limit: allowed.lending_limit,
            };
            snapshot.set_quota(name.as_str(), &kind, quota).map_err(|e| differ(&e))?;
        }
        if listed.contains(&name) {
            list(view, &mut snapshot, cohort, name, demand)?;
        }
        remainder(&mut snapshot, cohort, demand, (name, account))?;
    }
    out_of_service(&mut snapshot, cohort, demand)?;
    if demand.together > 0 {
        nodes(view, &mut snapshot, cohort, demand)?;
    }
    Ok(snapshot)
}

/// Adds all running workloads of a workspace.
fn list(
    view: &mut View,
    snapshot: &mut Snapshot,
    cohort: &Cohort,
    name: &WorkspaceName,
    demand: &Workload,
) -> Result<(), Undecided> {
    let running = running(view, &cohort.tenant, name)?;
    let freed_for: BTreeMap<&str, &str> = cohort
        .reclaims
        .values()
        .filter_map(|reclaim| Some((reclaim.workload.as_deref()?, &reclaim.victims)))
        .flat_map(|(workload, victims)| victims.iter().map(move |victim| (victim.as_str(), workload)))
        .collect();
    let protected = loans_safe_until(view, cohort, demand)?;
    let parts = if demand.together > 0 { parts(view, cohort, &running)? } else { BTreeMap::new() };
    for (id, one) in running {
        let workload = planner::Workload {
            priority: i64::from(one.priority),
            queued_at: instant(one.submitted_at),
            reserved_at: instant(one.admitted_at),
            evicted: one.reclaimed,
            freeing_for: freed_for.get(id.as_str()).map(|demand| (*demand).to_owned()),
            preemptible: one.preemptible,
            checkpoints: one.checkpoint != Checkpoint::None,
            protected_until: protected.get(&id).copied(),
            parts: parts.get(&id).cloned().unwrap_or_default(),
            ..planner::Workload::new(&id, name.as_str(), amounts(&one.requests))
        };
        snapshot.admit(workload).map_err(|e| differ(&e))?;
    }
    Ok(())
}

/// Returns the running reclaim of the demand if it is planned again. Its earmarked GPUs then belong to this demand.
fn active_reclaim<'a>(
    cohort: &'a Cohort,
    resource: &Resource,
    demand: &Workload,
) -> Option<&'a ActiveReclaim> {
    cohort.reclaims.get(resource).filter(|reclaim| reclaim.workload.as_ref() == Some(&demand.name))
}

/// Returns the free part of the demand's own quota beyond Kueue's arithmetic, with its earmarks. No victim has to free this amount.
fn beyond_quota(cohort: &Cohort, demand: &Workload, resource: &Resource) -> u64 {
    if active_reclaim(cohort, resource, demand).is_none() {
        let asked = demand.requests.contains_key(resource);
        return if asked { cohort.available_beyond_quota(&demand.workspace, resource) } else { 0 };
    }
    let mut cohort = cohort.clone();
    let account = cohort.accounts.get_mut(&demand.workspace);
    let balance = account.and_then(|account| account.balances.get_mut(resource));
    let aside = balance.map_or(0, |balance| std::mem::take(&mut balance.in_transit));
    if let Some(stock) = cohort.stock.get_mut(resource) {
        stock.free = stock.free.saturating_add(aside);
    }
    cohort.available_beyond_quota(&demand.workspace, resource)
}

/// Adds the rest of a workspace's usage as one workload that is never preempted, because quota needs only the sum. Earmarks of the demand count as requested,
/// not as used.
fn remainder(
    snapshot: &mut Snapshot,
    cohort: &Cohort,
    demand: &Workload,
    (name, account): (&WorkspaceName, &Account),
) -> Result<(), Undecided> {
    let rest = |(resource, balance): (&Resource, &crate::tenancy::Balance)| {
        let kind = kind(resource)?;
        let ours = *name == demand.workspace && active_reclaim(cohort, resource, demand).is_some();
        let taken = if ours { balance.used } else { balance.in_use() };
        let rest = taken.saturating_sub(snapshot.usage(name.as_str(), &kind));
        (rest > 0).then_some((kind, rest))
    };
    let usage: Amounts = account.balances.iter().filter_map(rest).collect();
    if usage.is_empty() {
        return Ok(());
    }
    let id = format!("the rest of {name}");
    let rest = planner::Workload { preemptible: false, ..planner::Workload::new(&id, name.as_str(), usage) };
    snapshot.admit(rest).map_err(|e| differ(&e))
}

/// Adds the quota without usable GPUs, because GPUs are barred or their nodes are out of service. Borrowers are reclaimed for it first.
fn out_of_service(snapshot: &mut Snapshot, cohort: &Cohort, demand: &Workload) -> Result<(), Undecided> {
    const NOBODY: &str = "nodes out of service";
    let mut usage = Amounts::new();
    for resource in demand.requests.keys().filter(|resource| resource.gpu().is_some()) {
        let stock = cohort.stock.get(resource).filter(|stock| stock.resting > 0);
        let (Some(kind), Some(stock)) = (kind(resource), stock) else { continue };
        let unused = cohort
            .balances(resource)
            .map(|(_, balance)| i128::from(balance.allowance.nominal) - i128::from(balance.in_use()));
        let unused = i128::from(cohort.pool(resource)) + unused.sum::<i128>();
        let short = unused - i128::from(stock.free);
        if short > 0 {
            usage.insert(kind, u64::try_from(short).unwrap_or(u64::MAX).min(stock.resting));
        }
    }
    if usage.is_empty() {
        return Ok(());
    }
    let root = cohort.tenant.as_str();
    let never = Preemption::default();
    snapshot.add_workspace(NOBODY, Some(root), never, Sharing::default()).map_err(|e| differ(&e))?;
    let rest = planner::Workload { preemptible: false, ..planner::Workload::new(NOBODY, NOBODY, usage) };
    snapshot.admit(rest).map_err(|e| differ(&e))
}

/// Returns the end of loan protection, by the workload that uses the loan.
fn loans_safe_until(
    view: &mut View,
    cohort: &Cohort,
    demand: &Workload,
) -> Result<BTreeMap<String, i64>, Undecided> {
    let mut until = BTreeMap::<String, i64>::new();
    for resource in demand.requests.keys() {
        let open = view.get::<OpenLoans>(&OpenLoans::key(&cohort.tenant, resource))?;
        for loan in open.into_iter().flat_map(|loans| loans.open) {
            let protected = instant(loan.protected_until);
            let latest = until.entry(loan.workload).or_insert(protected);
            *latest = (*latest).max(protected);
        }
    }
    Ok(until)
}

/// Returns the placement of all listed workloads.
fn parts(
    view: &mut View,
    cohort: &Cohort,
    running: &[(String, RunningEntry)],
) -> Result<BTreeMap<String, Vec<WorkloadPart>>, Undecided> {
    let key = |id: &String| Workload::key(&cohort.tenant, id);
    view.prefetch::<Workload>(running.iter().map(|(id, _)| key(id)))?;
    let mut all = BTreeMap::new();
    for (id, one) in running {
        let Some(workload) = view.get::<Workload>(&key(id))? else { continue };
        let Some(kind) =
            one.requests.keys().find_map(|resource| kind(resource).filter(ResourceKind::is_device))
        else {
            continue;
        };
        let mut parts = Vec::new();
        for placed in &workload.placed {
            for (gpu, count) in &placed.gpus {
                parts.push(WorkloadPart {
                    node: placed.node.to_string(),
                    gpu: (!kind.is_gpu()).then_some(u32::from(*gpu)),
                    amounts: [(kind.clone(), u64::from(*count))].into(),
                });
            }
        }
        all.insert(id.clone(), parts);
    }
    Ok(all)
}

/// Adds the room on the tenant's nodes, with the earmarks of the demand.
fn nodes(
    view: &mut View,
    snapshot: &mut Snapshot,
    cohort: &Cohort,
    demand: &Workload,
) -> Result<(), Undecided> {
    let Some(occupancy) = view.get::<Occupancy>(cohort.tenant.as_str())? else { return Ok(()) };
    let sliced = |rooms: &BTreeMap<crate::tenancy::GpuKind, crate::tenancy::NodeRoom>| {
        rooms.keys().any(|kind| kind.profile.is_some())
    };
    let cut: Vec<String> =
        occupancy.nodes.iter().filter(|(_, rooms)| sliced(rooms)).map(|(node, _)| node.to_string()).collect();
    let begun: BTreeSet<String> = demand
        .requests
        .keys()
        .filter_map(|resource| active_reclaim(cohort, resource, demand))
        .flat_map(|reclaim| reclaim.nodes.iter().map(ToString::to_string))
        .collect();
    view.prefetch::<NodeUse>(cut.iter().chain(&begun).cloned())?;
    let others = |user: &&GpuUser| !(user.in_transit && user.workload == demand.name);
    for (node, rooms) in &occupancy.nodes {
        let uses = match cut.contains(&node.to_string()) || begun.contains(node.as_str()) {
            true => view.get::<NodeUse>(node.as_str())?,
            false => None,
        };
        let aside = uses.iter().flat_map(|uses| &uses.gpus).filter(|gpu| gpu.profile.is_none());
        let aside = aside.flat_map(|gpu| &gpu.users).filter(|user| !others(user)).count();
        let aside = u64::try_from(aside).unwrap_or(0);
        let whole = rooms.iter().filter(|(kind, _)| kind.profile.is_none());
        let free = whole
            .filter_map(|(gpu, room)| Some((kind(&Resource::Gpu(gpu.clone()))?, room.free + aside)))
            .collect();
        let mut slices = BTreeMap::new();
        if let Some(uses) = uses {
            let model = rooms.keys().next().map(|kind| kind.model.clone());
            for (number, gpu) in (0_u32..).zip(&uses.gpus) {
                let (Some(profile), Some(model), None) = (&gpu.profile, &model, &gpu.barred) else {
                    continue;
                };
                let taken: u64 = gpu.users.iter().filter(others).map(|user| u64::from(user.slices)).sum();
                let left = u64::from(gpu.slices).saturating_sub(taken);
                slices.insert(
                    number,
                    Amounts::from([(ResourceKind::slice(model.as_str(), profile.as_str()), left)]),
                );
            }
        }
        snapshot.set_node(node.as_str(), Node { free, slices, held_by: None });
    }
    Ok(())
}

/// Returns the demand in the planner's terms.
pub(super) fn demand(view: &View, workload: &Workload, stuck: &BTreeSet<String>) -> Demand {
    let requests = amounts(&workload.requests);
    let device =
        requests.iter().find(|(kind, _)| kind.is_device()).map(|(kind, count)| (kind.clone(), *count));
    let mut pieces = Vec::new();
    if let (Some((kind, count)), true) = (device, workload.together > 0) {
        let mut left = count;
        while left > 0 {
            let piece = left.min(workload.together);
            pieces.push(DemandPiece { needs: [(kind.clone(), piece)].into(), on_one_gpu: !kind.is_gpu() });
            left -= piece;
        }
    }
    Demand {
        priority: i64::from(workload.priority),
        queued_at: instant(workload.submitted_at),
        now: instant(view.now()),
        pieces,
        stuck: stuck.clone(),
        ..Demand::new(&workload.name, workload.workspace.as_str(), requests)
    }
}

/// Returns a time in the planner's unit.
fn instant(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}
