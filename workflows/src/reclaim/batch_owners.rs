//! Serves lenders together: one reclaim frees GPUs for other owners as well as its demand, so that they need not wait for one grace
//! after the other. At most one reclaim of a kind runs in a tenant (I-15), so it serves all of them.

use crate::{
    reclaim::{planner_input, question::PlanningQuery},
    scheduling::{
        admission::Rules,
        planner::{self, Demand, JudgedCandidate, Plan, PlanAnswer, Settings, Snapshot, Verdict},
    },
    tenancy::{
        Account, AccountState, Beneficiary, Cohort, QueuedWorkload, Resource, Workload, WorkspaceName,
        WorkspaceQueue, workspace_key,
    },
};
use engine::{ActionError, Undecided, View};
use store::Timestamp;

/// The most GPUs or slices that one reclaim frees for other workloads of one queue.
const MOST_OF_A_LINE: u64 = 32;
/// The most other workspaces that one reclaim frees for.
const MOST_WORKSPACES: usize = 16;
/// The most workloads of other workspaces; one commit can admit this number.
const MOST_OTHERS: usize = crate::scheduling::admission::MAX_ADMITTED_PER_COMMIT;
/// The most victims of a reclaim that frees for other workspaces. They are evicted at the same time, so that one grace is enough.
const MOST_VICTIMS: usize = super::record::AT_ONCE;

/// Returns the amount that other workloads of the demand's queue request within the workspace's own quota: at most [`MOST_OF_A_LINE`]. Excludes workloads that
/// need several GPUs on one node or other kinds.
pub(super) fn extra_for_queue(
    view: &mut View,
    question: &PlanningQuery<'_>,
    cohort: &Cohort,
    demand: &Workload,
) -> Result<u64, Undecided> {
    let (resource, workspace) = (question.resource, &demand.workspace);
    let Some(account) = cohort.accounts.get(workspace).filter(|_| demand.together <= 1) else { return Ok(0) };
    let wanted = demand.requests.get(resource).copied().unwrap_or(0);
    let balance = account.balance(resource);
    // When it is planned again, GPUs in transit already belong to the demand.
    let used = balance.in_use().saturating_sub(balance.in_transit);
    let room = balance.allowance.nominal.saturating_sub(used.saturating_add(wanted));
    let line = view.get::<WorkspaceQueue>(&workspace_key(question.tenant, workspace))?;
    let waiting = line.iter().flat_map(|line| &line.waiting).filter(|waits| waits.workload != demand.name);
    Ok(those_within(room, resource, waiting).iter().map(|(_, amount)| amount).sum())
}

/// Returns the first workloads that together request no more than the room.
fn those_within<'a>(
    room: u64,
    resource: &Resource,
    waiting: impl Iterator<Item = &'a QueuedWorkload>,
) -> Vec<(&'a QueuedWorkload, u64)> {
    let mut room = room.min(MOST_OF_A_LINE);
    let mut within = Vec::new();
    for waits in waiting {
        let amount = waits.requests.get(resource).copied().unwrap_or(0);
        if waits.together <= 1 && waits.requests.len() == 1 && amount > 0 && amount <= room {
            within.push((waits, amount));
            room -= amount;
        }
    }
    within
}

/// The input of a planned demand.
pub(super) struct PlannedDemand<'a> {
    /// The account before any eviction.
    pub(super) snapshot: Snapshot,
    /// The settings of the planner.
    pub(super) settings: &'a Settings,
    /// The demand.
    pub(super) asked: &'a Demand,
}

/// Adds victims for owners in other workspaces to a plan, one owner after the other, as long as no approval is required. Does nothing once victims are fenced:
/// a running reclaim is not widened.
pub(super) fn add_other_owners(
    view: &mut View,
    question: &PlanningQuery<'_>,
    cohort: &Cohort,
    party: PlannedDemand<'_>,
    plan: &mut Plan,
) -> Result<Vec<Beneficiary>, Undecided> {
    let Some(kind) = planner_input::kind(question.resource) else { return Ok(Vec::new()) };
    if cohort.reclaims.contains_key(question.resource) {
        return Ok(Vec::new());
    }
    let rules = Rules::in_force(view)?;
    let owners = owners(view, question, cohort, &rules, &party.asked.workspace);
    if owners.is_empty() {
        return Ok(Vec::new());
    }
    view.prefetch::<WorkspaceQueue>(owners.iter().map(|(name, _)| workspace_key(question.tenant, name)))?;
    let PlannedDemand { mut snapshot, settings, asked } = party;
    apply_plan(&mut snapshot, plan, asked)?;
    let mut served = Vec::new();
    for (workspace, room) in owners {
        let line = view.get::<WorkspaceQueue>(&workspace_key(question.tenant, &workspace))?;
        let mut within = those_within(room, question.resource, line.iter().flat_map(|line| &line.waiting));
        within.truncate(MOST_OTHERS.saturating_sub(served.len()));
        // All workloads of a queue, otherwise only the first.
        for some in [within.len(), 1] {
            let Some((some, (first, _))) = within.get(..some).zip(within.first()) else { continue };
            let wanted = some.iter().map(|(_, amount)| amount).sum();
            let demand = Demand {
                priority: i64::from(first.priority),
                queued_at: i64::try_from(first.since.0).unwrap_or(i64::MAX),
                now: asked.now,
                ..Demand::new(&first.workload, workspace.as_str(), [(kind.clone(), wanted)].into())
            };
            let Some(wider) = extend_plan(&snapshot, settings, plan, &demand) else { continue };
            apply_plan(&mut snapshot, &wider, &demand)?;
            merge_plans(plan, wider);
            served.extend(some.iter().map(|(waits, wanted)| Beneficiary {
                workspace: workspace.clone(),
                workload: waits.workload.clone(),
                wanted: *wanted,
                aside: 0,
            }));
            break;
        }
    }
    Ok(served)
}

/// Returns workspaces with queued workloads whose quota is on loan, and the unused part of their quota; longest wait first. A workspace whose queue is blocked
/// by an overdue workload gets a reclaim of its own.
fn owners(
    view: &View,
    question: &PlanningQuery<'_>,
    cohort: &Cohort,
    rules: &Rules,
    except: &str,
) -> Vec<(WorkspaceName, u64)> {
    let now = view.now();
    let owner = |(name, account): (&WorkspaceName, &Account)| -> Option<(Timestamp, WorkspaceName, u64)> {
        let since = account.oldest.filter(|since| !rules.aged_priority(now.since(*since)).1)?;
        let balance = account.balance(question.resource);
        let room = balance.allowance.nominal.saturating_sub(balance.in_use());
        let least = account.least.get(question.resource).copied().filter(|least| *least > 0)?;
        let lent = cohort.available(name, question.resource) < least;
        let owns = name.as_str() != except && account.admitting == AccountState::Open && least <= room;
        (account.waiting > 0 && owns && lent).then(|| (since, name.clone(), room))
    };
    let mut owners: Vec<_> = cohort.accounts.iter().filter_map(owner).collect();
    owners.sort();
    owners.truncate(MOST_WORKSPACES);
    owners.into_iter().map(|(_, name, room)| (name, room)).collect()
}

/// Returns the plan with one more demand, if the extended plan needs no approval.
fn extend_plan(snapshot: &Snapshot, settings: &Settings, plan: &Plan, demand: &Demand) -> Option<Plan> {
    let wider = match planner::plan(snapshot, demand, settings).ok()? {
        // The GPUs to free for earlier demands exceed their requests and are enough.
        PlanAnswer::Fits { .. } => Plan {
            victims: Vec::new(),
            borrowing: false,
            breaches: Vec::new(),
            placement: Vec::new(),
            explanation: planner::Explanation::default(),
        },
        PlanAnswer::Reclaim(plan) => plan,
        PlanAnswer::Wait { .. } => return None,
    };
    let all: Vec<_> = plan.victims.iter().chain(&wider.victims).cloned().collect();
    let together = settings.guard.as_ref();
    let together = together.map(|guard| planner::combined_breaches(snapshot, &demand.workspace, guard, &all));
    let free = wider.breaches.is_empty() && together.is_none_or(|breaches| breaches.is_empty());
    (free && all.len() <= MOST_VICTIMS).then_some(wider)
}

/// Applies a plan to the snapshot: removes its victims and admits its demand.
fn apply_plan(snapshot: &mut Snapshot, plan: &Plan, demand: &Demand) -> Result<(), Undecided> {
    for victim in &plan.victims {
        snapshot.remove(&victim.workload);
    }
    let id = format!("once served: {}", demand.id);
    let served = planner::Workload {
        preemptible: false,
        ..planner::Workload::new(&id, &demand.workspace, demand.requests.clone())
    };
    let differ =
        |error: planner::Unknown| ActionError::permanent(planner_input::BOOKS, error.to_string()).into();
    snapshot.admit(served).map_err(differ)
}

fn merge_plans(plan: &mut Plan, wider: Plan) {
    let explained = &mut plan.explanation.candidates;
    explained.retain(|candidate| !wider.victims.iter().any(|victim| victim.workload == candidate.workload));
    explained.extend(wider.victims.iter().map(|victim| JudgedCandidate {
        workload: victim.workload.clone(),
        workspace: victim.workspace.clone(),
        verdict: Verdict::Taken { reason: victim.reason },
    }));
    plan.victims.extend(wider.victims);
}
