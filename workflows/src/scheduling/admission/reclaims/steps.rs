//! Changes of the account by a reclaim, from the fence to the grant. The workflow calls these functions in order; each is one commit and safe to repeat.
//!
//! GPUs are granted only after they were observed free (I-10). A victim counts as usage until [`release_victim`]; then its exact GPUs are in transit to the
//! demand until [`grant`]. GPUs free at the fence are earmarked too, so no other workload can take them first.

use crate::{
    scheduling::admission::{
        AdmissionEffects,
        apply_loans::SettlementCause,
        codes,
        decision::decide::{DecisionOrigin, PendingDecision},
        unit_of_work::AdmissionTx,
    },
    tenancy::{
        ActiveReclaim, Admission, AdmissionVerdict, Beneficiary, LoanState, Resource, TenantId, Workload,
        WorkloadState, WorkspaceName,
    },
};
use engine::{ActionError, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{ExecutionId, Timestamp};

/// A reclaim to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
    /// The execution of the reclaim.
    pub execution: ExecutionId,
    /// The workspace of the demand.
    pub workspace: WorkspaceName,
    /// The workload of the demand; `None` to reclaim loans without a demand.
    pub workload: Option<String>,
    /// The amount to free for other workloads of the same queue.
    pub more: u64,
    /// Beneficiaries in other workspaces. A repeated call keeps the first list.
    pub others: Vec<Beneficiary>,
    /// The planned victims. A repeated call adds its victims (P-8).
    pub victims: BTreeSet<String>,
    /// The deadline of the promise.
    pub deadline: Timestamp,
}

/// The result of fencing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceOutcome {
    /// The victims are marked, and free GPUs are earmarked.
    Done {
        /// The earmarked amount.
        aside: u64,
        /// The requested amount.
        wanted: u64,
    },
    /// The demand has its GPUs or was withdrawn. No change was made.
    NothingToDo,
    /// The plan is outdated: plan again. No change was made.
    Stale {
        /// The reason.
        why: String,
    },
    /// Another execution reclaims the kind (I-15). No change was made.
    Busy {
        /// The other execution.
        by: ExecutionId,
    },
}

/// The exit of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VictimExit {
    /// It was evicted: it returns to its old place in the queue and may not borrow until its cool-down ends.
    Evicted,
    /// It ended without an eviction.
    Ended,
}

/// The result of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantOutcome {
    /// The demand runs. The reclaim has ended, and victims that still ran are spared.
    Done {
        /// The decision that admits it; `None` if there was no workload, or it was admitted or withdrawn before.
        admission: Option<Box<Admission>>,
        /// The spared victims.
        spared: BTreeSet<String>,
        /// Other effects of the commit.
        news: AdmissionEffects,
    },
    /// The grant is not possible yet. Only earmarks were added.
    NotYet {
        /// The missing amount of the kind.
        missing: u64,
        /// Codes of the decision that keep the demand waiting although no GPUs are missing.
        codes: Vec<String>,
    },
}

/// The result of ending a reclaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfenceOutcome {
    /// The spared victims.
    pub spared: BTreeSet<String>,
    /// Other effects of the commit.
    pub news: AdmissionEffects,
}

/// Begins a reclaim or adds victims to it: marks the victims, records the reclaim in the account, and earmarks free GPUs.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn fence(view: &mut View, fence: &Fence) -> Result<FenceOutcome, Undecided> {
    let keys = fence.victims.iter().chain(&fence.workload).map(|name| Workload::key(&fence.tenant, name));
    let mut desk = AdmissionTx::open(view, &fence.tenant, [view.prefetch::<Workload>(keys)])?;
    if let Some(other) = desk.cohort.reclaims.get(&fence.resource).filter(|r| r.execution != fence.execution)
    {
        return Ok(FenceOutcome::Busy { by: other.execution });
    }
    let mut wanted = 0;
    if let Some(name) = &fence.workload {
        let demand = desk.workload(view, name)?.filter(|demand| demand.state == WorkloadState::Waiting);
        let Some(demand) = demand else { return Ok(FenceOutcome::NothingToDo) };
        wanted = demand.requests.get(&fence.resource).copied().unwrap_or(0);
        let line = desk.queue_of(view, &fence.workspace)?;
        if !line.waiting.iter().any(|waits| waits.workload == *name) {
            return Ok(FenceOutcome::Stale { why: format!("{name} is not queued in {}", fence.workspace) });
        }
    }
    let ours = desk.cohort.reclaims.get(&fence.resource).map(|reclaim| reclaim.victims.clone());
    let fresh: Vec<_> = fence.victims.difference(&ours.unwrap_or_default()).cloned().collect();
    if let Some(why) = desk.fence_problem(view, fence, &fresh, wanted.saturating_add(fence.more))? {
        return Ok(FenceOutcome::Stale { why });
    }
    desk.mark(view, fence, &fresh, wanted)?;
    desk.top_up(view)?;
    let aside = desk.account(&fence.workspace)?.balance(&fence.resource).in_transit;
    desk.save(view)?;
    Ok(FenceOutcome::Done { aside, wanted })
}

/// Releases a victim after it was observed gone and its GPUs free: the GPUs are in transit to the demand, and the victim is queued. Does nothing if repeated,
/// or for a victim that has ended.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `reclaim.not_ours` for a victim of another reclaim.
pub fn release_victim(
    view: &mut View,
    tenant: &TenantId,
    execution: ExecutionId,
    victim: &str,
    gone: VictimExit,
) -> Result<AdmissionEffects, Undecided> {
    let mut desk =
        AdmissionTx::open(view, tenant, [view.prefetch::<Workload>([Workload::key(tenant, victim)])])?;
    let Some(workload) = desk.workload(view, victim)?.cloned() else {
        return Ok(AdmissionEffects::default());
    };
    match &workload.state {
        WorkloadState::Reclaimed { by } if *by == execution => {}
        WorkloadState::Reclaimed { by } => return Err(not_ours(format!("{victim} is reclaimed by {by}"))),
        WorkloadState::Waiting
        | WorkloadState::Admitted
        | WorkloadState::Finished
        | WorkloadState::Rejected => return Ok(AdmissionEffects::default()),
    }
    desk.vacate(view, &workload, SettlementCause::Ended(victim))?;
    match gone {
        VictimExit::Ended => {
            desk.put_workload(Workload { state: WorkloadState::Finished, placed: Vec::new(), ..workload });
        }
        VictimExit::Evicted => {
            let cooling_until = Some(desk.now.after(desk.rules.cool_down));
            desk.requeue(view, workload, cooling_until)?;
        }
    }
    desk.admit_waiting(view)?;
    desk.save(view)
}

/// Admits the demand to its earmarked GPUs and ends the reclaim, in one commit.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `reclaim.not_ours` if the execution does not reclaim the kind.
pub fn grant(
    view: &mut View,
    tenant: &TenantId,
    resource: &Resource,
    execution: ExecutionId,
) -> Result<GrantOutcome, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    let reclaim = desk.own_reclaim(resource, execution)?;
    let (demand, decided, spared) = match desk.try_grant(view, resource, &reclaim)? {
        GrantAttempt::Gone => {
            let spared = desk.unfence(view, resource)?;
            desk.admit_waiting(view)?;
            return Ok(GrantOutcome::Done { admission: None, spared, news: desk.save(view)? });
        }
        GrantAttempt::Missing(missing) => {
            desk.save(view)?;
            return Ok(GrantOutcome::NotYet { missing, codes: Vec::new() });
        }
        GrantAttempt::Decided { demand, decided, spared } => (*demand, *decided, spared),
    };
    if decided.admission.answer != AdmissionVerdict::Admit {
        let against =
            decided.admission.weighed.iter().filter(|finding| finding.answer != AdmissionVerdict::Admit);
        return Ok(GrantOutcome::NotYet {
            missing: 0,
            codes: against.map(|finding| finding.code.clone()).collect(),
        });
    }
    desk.change_line(view, &demand.workspace, |line| {
        line.waiting.retain(|waits| waits.workload != demand.name);
    })?;
    let admission = desk.admit(view, demand, decided)?;
    // The reclaim starts its demand itself and ends only afterwards.
    desk.effects.starts.retain(|start| start.workload != admission.workload);
    desk.admit_waiting(view)?;
    Ok(GrantOutcome::Done { admission: Some(Box::new(admission)), spared, news: desk.save(view)? })
}

/// The progress of a grant.
pub(in crate::scheduling::admission) enum GrantAttempt {
    /// The demand was withdrawn. No change was made.
    Gone,
    /// This amount of the kind is missing. Available GPUs are earmarked.
    Missing(u64),
    /// The reclaim has ended in this transaction, and the demand was decided on.
    Decided {
        /// The demand.
        demand: Box<Workload>,
        /// The decision, which may not admit it.
        decided: Box<PendingDecision>,
        /// The victims that still ran.
        spared: BTreeSet<String>,
    },
}

/// Ends a reclaim without a grant: spares victims that still run and frees the earmarks. Tolerates a reclaim that has ended.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn unfence(
    view: &mut View,
    tenant: &TenantId,
    resource: &Resource,
    execution: ExecutionId,
) -> Result<UnfenceOutcome, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [])?;
    if desk.cohort.reclaims.get(resource).is_none_or(|reclaim| reclaim.execution != execution) {
        return Ok(UnfenceOutcome::default());
    }
    let spared = desk.unfence(view, resource)?;
    desk.admit_waiting(view)?;
    Ok(UnfenceOutcome { spared, news: desk.save(view)? })
}

fn not_ours(problem: String) -> Undecided {
    ActionError::permanent(codes::RECLAIM_NOT_OURS, problem).into()
}

impl AdmissionTx {
    fn own_reclaim(&self, resource: &Resource, execution: ExecutionId) -> Result<ActiveReclaim, Undecided> {
        let reclaim = self.cohort.reclaims.get(resource).filter(|reclaim| reclaim.execution == execution);
        let problem =
            || not_ours(format!("{execution} does not reclaim {resource} of tenant {}", self.tenant.id));
        reclaim.cloned().ok_or_else(problem)
    }

    /// Performs the grant in this transaction, without recording the decision.
    pub(in crate::scheduling::admission) fn try_grant(
        &mut self,
        view: &mut View,
        resource: &Resource,
        reclaim: &ActiveReclaim,
    ) -> Result<GrantAttempt, Undecided> {
        self.top_up(view)?;
        let demand = match &reclaim.workload {
            Some(name) => self.workload(view, name)?.filter(|w| w.state == WorkloadState::Waiting).cloned(),
            None => None,
        };
        let Some(demand) = demand else { return Ok(GrantAttempt::Gone) };
        let aside = self.account(&reclaim.workspace)?.balance(resource).in_transit;
        let missing = reclaim.wanted.saturating_sub(aside);
        if missing > 0 {
            return Ok(GrantAttempt::Missing(missing));
        }
        self.serve_others(view)?;
        let spared = self.unfence(view, resource)?;
        let decided = self.decide(view, &demand, DecisionOrigin::Granted)?;
        Ok(GrantAttempt::Decided { demand: Box::new(demand), decided: Box::new(decided), spared })
    }

    fn mark(
        &mut self,
        view: &mut View,
        fence: &Fence,
        fresh: &[String],
        wanted: u64,
    ) -> Result<(), Undecided> {
        for name in fresh {
            let victim = self.need_workload(view, name)?;
            self.note_reclaim(view, &fence.resource, &victim)?;
            for resource in victim.requests.keys().filter(|resource| resource.gpu().is_some()) {
                self.mark_loans(view, resource, name, LoanState::RecallNotified)?;
            }
            let victim = Workload { state: WorkloadState::Reclaimed { by: fence.execution }, ..victim };
            self.enrol(view, &victim)?;
            self.put_workload(victim);
        }
        let reclaim = self.cohort.reclaims.entry(fence.resource.clone()).or_insert_with(|| ActiveReclaim {
            execution: fence.execution,
            workspace: fence.workspace.clone(),
            workload: fence.workload.clone(),
            wanted,
            more: 0,
            others: fence.others.clone(),
            withdrawn: false,
            victims: BTreeSet::new(),
            nodes: BTreeSet::new(),
            deadline: fence.deadline,
        });
        reclaim.more = fence.more;
        reclaim.victims.extend(fresh.iter().cloned());
        Ok(())
    }

    /// Records that these lenders reclaimed loans from a borrower, once per time. Reduces the borrower's limit after repeated reclaims (P-9).
    fn note_reclaim(
        &mut self,
        view: &mut View,
        resource: &Resource,
        victim: &Workload,
    ) -> Result<(), Undecided> {
        let open = &self.loans(view, resource)?.open;
        let loans = open.iter().filter(|loan| loan.workload == victim.name);
        let lenders: BTreeSet<_> = loans.filter_map(|loan| loan.lender.workspace().cloned()).collect();
        let (now, thrash) = (self.now, self.rules.thrash.clone());
        let account = self.account_mut(&victim.workspace)?;
        for times in account.reclaimed.values_mut() {
            times.retain(|at| now.since(*at) < thrash.within);
        }
        account.reclaimed.retain(|_, times| !times.is_empty());
        for lender in lenders {
            let times = account.reclaimed.entry(lender).or_default();
            if times.last() != Some(&now) {
                times.push(now);
            }
            if times.len() >= thrash.reclaims {
                account.slowed_until = Some(now.after(thrash.hold));
            }
        }
        Ok(())
    }

    /// Returns a workload that ran to its old place in the queue.
    pub(in crate::scheduling::admission) fn requeue(
        &mut self,
        view: &mut View,
        workload: Workload,
        cooling_until: Option<Timestamp>,
    ) -> Result<(), Undecided> {
        let evictions = workload.evictions.saturating_add(1);
        let mut workload = Workload {
            state: WorkloadState::Waiting,
            placed: Vec::new(),
            observed: None,
            evictions,
            ..workload
        };
        let decided = self.decide(view, &workload, DecisionOrigin::Queued { cooling_until })?;
        self.insert_in_queue(view, &workload, cooling_until)?;
        if decided.admission.answer != AdmissionVerdict::Admit {
            let admission = self.record(decided.admission);
            workload.decision = Admission::key(&self.tenant.id, admission.number);
        }
        self.put_workload(workload);
        Ok(())
    }
}
