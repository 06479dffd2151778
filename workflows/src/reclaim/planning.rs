//! Plans a reclaim: reads the account, calls the planner, and adds the terms of each eviction.

use crate::{
    platform::{GpuSet, ObservedGpus, ScrubLevel, WorkloadRef},
    policy::{
        PlatformPolicy, ScrubMethod,
        decisions::{ApprovalFor, ReclaimBreadth, approval, scrub_method},
        in_force,
    },
    reclaim::{
        ReclaimCause,
        batch_owners::{self, PlannedDemand},
        eviction::{Eviction, EvictionTerms},
        guard_stop,
        planned::{PlanVerdict, PlannedReclaim, ReclaimTerms},
        planner_input, planner_settings,
        question::PlanningQuery,
    },
    scheduling::{
        admission,
        planner::{self, Breach, Explanation, Plan, PlanAnswer},
    },
    tenancy::{
        Beneficiary, Cluster, Cohort, Compliance, NodeAllocation, OpenLoans, Resource, RunningEntry, Tenant,
        Workload, WorkloadState, WorkspaceName, WorkspaceQueue, workspace_key,
    },
};
use engine::{Undecided, View};
use std::{collections::BTreeSet, time::Duration};
use store::Timestamp;

/// Plans on the current account. Changes nothing.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.missing` for an unknown tenant, account or workload.
pub(crate) fn plan(view: &mut View, question: &PlanningQuery<'_>) -> Result<PlannedReclaim, Undecided> {
    let policy = in_force(view)?;
    let cohort = view.require::<Cohort>(question.tenant.as_str())?;
    let (deadline, grace) = promise(view, question, &cohort, &policy)?;
    let terms = question.terms.cloned().unwrap_or_else(|| terms(&policy, deadline));
    let found = match question.cause {
        ReclaimCause::Demand { workload, .. } => for_demand(view, question, &cohort, &policy, workload)?,
        ReclaimCause::Overdue => overdue(view, question, &cohort)?,
        ReclaimCause::Excess { workspace, amount } => excess(view, question, workspace, *amount)?,
    };
    let tenant = view.require::<Tenant>(question.tenant.as_str())?;
    let cluster = view.get::<NodeAllocation>(question.tenant.as_str())?.map(|held| held.cluster.to_string());
    // If a victim's GPUs may go to several workspaces, they are scrubbed as for another workspace.
    let begun = cohort.reclaims.get(question.resource);
    let alone = found.others.is_empty() && begun.is_none_or(|reclaim| reclaim.others.is_empty());
    let to = match question.cause {
        ReclaimCause::Demand { workspace, .. } if alone => Some(workspace.clone()),
        ReclaimCause::Demand { .. } | ReclaimCause::Overdue | ReclaimCause::Excess { .. } => None,
    };
    let keys = found.victims.iter().map(|name| Workload::key(question.tenant, name));
    view.prefetch::<Workload>(keys)?;
    let mut victims = Vec::new();
    for name in &found.victims {
        let workload = view.require::<Workload>(&Workload::key(question.tenant, name))?;
        let care = eviction_terms(&policy, grace, &tenant, &workload, to.as_ref());
        let at = view.now().after(care.grace).0;
        victims.push(eviction(workload, cluster.clone().unwrap_or_default(), care, at));
    }
    let known = cluster.as_deref().map(|id| view.get::<Cluster>(id)).transpose()?.flatten();
    let simulated = known.is_some_and(|cluster| cluster.is_simulated());
    let ChosenVictims { verdict, more, others, breaches, why, explanation, .. } = found;
    Ok(PlannedReclaim { verdict, terms, more, others, victims, breaches, why, explanation, simulated })
}

/// The victims by name, with reasons.
struct ChosenVictims {
    verdict: PlanVerdict,
    more: u64,
    others: Vec<Beneficiary>,
    victims: Vec<String>,
    breaches: Vec<Breach>,
    why: Option<String>,
    explanation: Explanation,
}

impl ChosenVictims {
    fn nothing(verdict: PlanVerdict) -> Self {
        Self {
            verdict,
            more: 0,
            others: Vec::new(),
            victims: Vec::new(),
            breaches: Vec::new(),
            why: None,
            explanation: Explanation::default(),
        }
    }

    fn these(victims: Vec<String>) -> Self {
        let verdict = if victims.is_empty() { PlanVerdict::Satisfied } else { PlanVerdict::Evict };
        Self { victims, ..Self::nothing(verdict) }
    }
}

/// Chooses victims by Kueue's rules, on the tenant's whole account.
fn for_demand(
    view: &mut View,
    question: &PlanningQuery<'_>,
    cohort: &Cohort,
    policy: &PlatformPolicy,
    name: &str,
) -> Result<ChosenVictims, Undecided> {
    let demand = view.require::<Workload>(&Workload::key(question.tenant, name))?;
    if demand.state != WorkloadState::Waiting {
        return Ok(ChosenVictims::nothing(PlanVerdict::Satisfied));
    }
    let begun = cohort.reclaims.get(question.resource);
    let begun = begun.is_some_and(|reclaim| reclaim.workload.as_ref() == Some(&demand.name));
    if !begun && let Some(kind) = admission::too_large(view, &demand)? {
        let why =
            format!("the nodes in service have too little {kind} for {name}, even without other workloads");
        return Ok(ChosenVictims { why: Some(why), ..ChosenVictims::nothing(PlanVerdict::Infeasible) });
    }
    if !begun && !admission::lacks(view, &demand, question.resource)? {
        return Ok(ChosenVictims::nothing(PlanVerdict::Satisfied));
    }
    let snapshot = planner_input::snapshot(view, cohort, &demand, policy)?;
    let mut asked = planner_input::demand(view, &demand, question.stuck);
    let settings = planner_settings::settings(view, cohort, policy, question.hard)?;
    let mut more = batch_owners::extra_for_queue(view, question, cohort, &demand)?;
    let mut plan = None;
    if let Some(kind) = planner_input::kind(question.resource).filter(|_| more > 0) {
        let mut all = asked.clone();
        let amount = all.requests.entry(kind).or_default();
        *amount = amount.saturating_add(more);
        // Only if it needs no more victims. Otherwise the first demand is served first, and the others afterwards.
        let wider = planner::plan(&snapshot, &all, &settings);
        if matches!(&wider, Ok(PlanAnswer::Reclaim(plan)) if plan.breaches.is_empty()) {
            (asked, plan) = (all, Some(wider));
        }
    }
    let mut plan = plan.unwrap_or_else(|| {
        more = 0;
        planner::plan(&snapshot, &asked, &settings)
    });
    let stopped = match &plan {
        Ok(PlanAnswer::Reclaim(plan)) => guard_stop::stopped(&plan.breaches, policy),
        Ok(PlanAnswer::Fits { .. } | PlanAnswer::Wait { .. }) | Err(_) => None,
    };
    if let Some(stopped) = stopped {
        // No approval can allow a wider plan, so only plans within the guard are searched.
        let narrow = planner_settings::settings(view, cohort, policy, true)?;
        plan = planner::plan(&snapshot, &asked, &narrow);
        if plan.is_err() {
            return Ok(ChosenVictims { why: Some(guard_stop::describe(&stopped)), ..found(plan) });
        }
    }
    let mut others = Vec::new();
    if let Ok(PlanAnswer::Reclaim(plan)) = &mut plan
        && plan.breaches.is_empty()
        && demand.together <= 1
    {
        let party = PlannedDemand { snapshot, settings: &settings, asked: &asked };
        others = batch_owners::add_other_owners(view, question, cohort, party, plan)?;
    }
    Ok(ChosenVictims { more, others, ..found(plan) })
}

/// Converts the result of a plan.
fn found(plan: Result<PlanAnswer, Box<planner::Infeasible>>) -> ChosenVictims {
    match plan {
        Ok(PlanAnswer::Fits { .. } | PlanAnswer::Wait { .. }) => {
            ChosenVictims::nothing(PlanVerdict::Satisfied)
        }
        Ok(PlanAnswer::Reclaim(Plan { victims, breaches, explanation, .. })) => ChosenVictims {
            victims: victims
                .into_iter()
                .filter(|victim| !victim.ongoing)
                .map(|victim| victim.workload)
                .collect(),
            breaches,
            explanation,
            ..ChosenVictims::nothing(PlanVerdict::Evict)
        },
        Err(none) => ChosenVictims {
            why: Some(none.why.to_string()),
            explanation: none.explanation,
            ..ChosenVictims::nothing(PlanVerdict::Infeasible)
        },
    }
}

/// Returns the workloads of overdue loans, if any workload waits for them.
fn overdue(
    view: &mut View,
    question: &PlanningQuery<'_>,
    cohort: &Cohort,
) -> Result<ChosenVictims, Undecided> {
    let waits = |account: &crate::tenancy::Account| {
        account.waiting > 0 && account.least.contains_key(question.resource)
    };
    if !cohort.accounts.values().any(waits) {
        return Ok(ChosenVictims::nothing(PlanVerdict::Satisfied));
    }
    let now = view.now();
    let open = view.get::<OpenLoans>(&OpenLoans::key(question.tenant, question.resource))?;
    let due = open.iter().flat_map(|loans| &loans.open).filter(|loan| loan.due <= now);
    let names: BTreeSet<String> = due.map(|loan| loan.workload.clone()).collect();
    running_of(view, question, names.into_iter().collect())
}

/// Returns the `names` that run and are not being evicted.
fn running_of(
    view: &mut View,
    question: &PlanningQuery<'_>,
    names: Vec<String>,
) -> Result<ChosenVictims, Undecided> {
    view.prefetch::<Workload>(names.iter().map(|name| Workload::key(question.tenant, name)))?;
    let mut victims = Vec::new();
    for name in names {
        let workload = view.get::<Workload>(&Workload::key(question.tenant, &name))?;
        if workload.is_some_and(|workload| workload.state == WorkloadState::Admitted) {
            victims.push(name);
        }
    }
    Ok(ChosenVictims::these(victims))
}

/// Returns the least important and youngest workloads of a workspace, up to `amount`.
fn excess(
    view: &mut View,
    question: &PlanningQuery<'_>,
    workspace: &WorkspaceName,
    amount: u64,
) -> Result<ChosenVictims, Undecided> {
    let mut running = planner_input::running(view, question.tenant, workspace)?;
    running.retain(|(_, one)| one.requests.contains_key(question.resource));
    let being: u64 =
        running.iter().filter(|(_, one)| one.reclaimed).map(|(_, one)| of(one, question.resource)).sum();
    running.retain(|(_, one)| one.preemptible && !one.reclaimed);
    running.sort_by(|(a, one), (b, other)| {
        (one.priority, std::cmp::Reverse(one.admitted_at), a).cmp(&(
            other.priority,
            std::cmp::Reverse(other.admitted_at),
            b,
        ))
    });
    let (mut left, mut victims) = (amount.saturating_sub(being), Vec::new());
    for (name, one) in running {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(of(&one, question.resource));
        victims.push(name);
    }
    if left == 0 {
        return Ok(ChosenVictims::these(victims));
    }
    let why = format!(
        "the workloads of {workspace} that may be evicted free {left} of {} too little",
        question.resource
    );
    Ok(ChosenVictims { why: Some(why), ..ChosenVictims::nothing(PlanVerdict::Infeasible) })
}

fn of(running: &RunningEntry, resource: &Resource) -> u64 {
    running.requests.get(resource).copied().unwrap_or_default()
}

/// Returns the deadline and the victims' grace: those of the reservation, or of policy.
fn promise(
    view: &mut View,
    question: &PlanningQuery<'_>,
    cohort: &Cohort,
    policy: &PlatformPolicy,
) -> Result<(Timestamp, Duration), Undecided> {
    let now = view.now();
    let usual = (now.after(policy.reclaim.deadline), policy.reclaim.grace);
    let ReclaimCause::Demand { workspace, workload } = question.cause else { return Ok(usual) };
    // The promise counts from the start of the wait within the own quota. Earlier waits for more do not count.
    let line = view.get::<WorkspaceQueue>(&workspace_key(question.tenant, workspace))?;
    let mut waiting = line.iter().flat_map(|line| &line.waiting);
    let since = waiting.find(|waits| waits.workload == *workload).and_then(|waits| waits.demanded_at);
    let since = since.unwrap_or(now);
    let account = cohort.accounts.get(workspace);
    let promises: Vec<_> =
        account.into_iter().flat_map(|account| account.active_reservations(question.resource, now)).collect();
    let deadline =
        promises.iter().map(|promise| promise.reclaim_deadline).min().unwrap_or(policy.reclaim.deadline);
    let grace = promises.iter().map(|promise| promise.grace).min().unwrap_or(policy.reclaim.grace);
    Ok((since.after(deadline), grace))
}

pub(crate) fn terms(policy: &PlatformPolicy, deadline: Timestamp) -> ReclaimTerms {
    let asked = approval(&ApprovalFor::Reclaim(ReclaimBreadth::WIDEST), policy).answer.gate();
    let gate = asked.unwrap_or_else(|| policy.approvals.reclaim.clone());
    ReclaimTerms {
        policy: policy.reference.clone(),
        deadline,
        seats: gate.seats,
        patience: gate.within,
        procedure: gate.procedure,
        plans: policy.reclaim.replans.saturating_add(1),
        steps_within: Some(policy.reclaim.limits.sum()),
    }
}

/// Returns the terms of a victim's eviction. The scrub is sufficient for the next user.
fn eviction_terms(
    policy: &PlatformPolicy,
    grace: Duration,
    tenant: &Tenant,
    victim: &Workload,
    to: Option<&WorkspaceName>,
) -> EvictionTerms {
    terms_of_eviction(policy, grace, &tenant.compliance, to == Some(&victim.workspace))
}

/// Same, for a victim of a tenant with these tags, whose GPUs go to its own workspace or to another.
pub(crate) fn terms_of_eviction(
    policy: &PlatformPolicy,
    grace: Duration,
    tags: &BTreeSet<Compliance>,
    same_workspace: bool,
) -> EvictionTerms {
    let limits = &policy.reclaim.limits;
    let (method, _) = scrub_method(tags, same_workspace, policy);
    EvictionTerms {
        grace,
        notify: limits.notify,
        evict: limits.evict,
        gone: limits.gone,
        confirm: limits.confirm,
        scrub: limits.scrub,
        reads: policy.reclaim.confirm.reads,
        apart: policy.reclaim.confirm.apart,
        level: level(method),
    }
}

fn level(method: ScrubMethod) -> ScrubLevel {
    match method {
        ScrubMethod::None => ScrubLevel::None,
        ScrubMethod::DriverScrub => ScrubLevel::Driver,
        ScrubMethod::FillVerify => ScrubLevel::Verified,
        ScrubMethod::MigRecreate => ScrubLevel::Recreate,
        ScrubMethod::GpuReset => ScrubLevel::Reset,
    }
}

fn eviction(workload: Workload, cluster: String, care: EvictionTerms, at: u64) -> Eviction {
    let mut gpus = GpuSet::new();
    for placed in &workload.placed {
        gpus.entry(placed.node.to_string()).or_default().extend(placed.gpus.keys().copied());
    }
    let facts = workload.observed.as_ref().map(|seen| ObservedGpus::reported(seen.indexes()));
    Eviction {
        facts: facts.unwrap_or_default(),
        observed: None,
        workload: WorkloadRef {
            cluster,
            tenant: workload.tenant.to_string(),
            workspace: workload.workspace.to_string(),
            name: workload.name,
        },
        tenant: workload.tenant,
        class: workload.class,
        checkpoint: workload.checkpoint,
        gpus: gpus.into(),
        at,
        care,
        clean: 0,
        looks: 0,
        open: Vec::new(),
        scrubbed: Vec::new(),
        spared: None,
    }
}
