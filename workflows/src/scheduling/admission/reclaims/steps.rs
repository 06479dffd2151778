//! What a reclaim does to the account, from the fence to the grant. The workflow calls these one after the other; each is one
//! commit, and each may be called again.
//!
//! GPUs are granted only after they were observed free (I-10): a victim's count as used until [`release_victim`], then as in
//! transit to the demand, on the very GPUs, until [`grant`]. What is free at the fence is set aside as well, so nobody else gets
//! ahead of the demand.

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

/// A reclaim to be fenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
    pub resource: Resource,
    /// The reclaim.
    pub execution: ExecutionId,
    /// The workspace whose demand it serves.
    pub workspace: WorkspaceName,
    /// The workload that demands; `None` to call loans back for nobody in particular.
    pub workload: Option<String>,
    /// What is freed for others of its line besides.
    pub more: u64,
    /// Workloads of other workspaces that it frees for. Called again, those of the first time stay.
    pub others: Vec<Beneficiary>,
    /// Workloads to be evicted, as planned. Called again with more, these are added (P-8).
    pub victims: BTreeSet<String>,
    /// When the promise is broken.
    pub deadline: Timestamp,
}

/// What fencing came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceOutcome {
    /// The victims are marked, and what is free is set aside.
    Done {
        /// Set aside so far.
        aside: u64,
        /// Asked for.
        wanted: u64,
    },
    /// The demand has its GPUs, or is no longer wanted. Nothing was changed.
    NothingToDo,
    /// The plan no longer holds: plan again. Nothing was changed.
    Stale {
        /// Why.
        why: String,
    },
    /// Another execution reclaims the kind (I-15). Nothing was changed.
    Busy {
        /// That one.
        by: ExecutionId,
    },
}

/// What became of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VictimExit {
    /// It was evicted: back to its old place in line, and it may not borrow until it has cooled down.
    Evicted,
    /// It ended by itself.
    Ended,
}

/// What granting came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantOutcome {
    /// The demand runs; the reclaim is over, and victims that still ran are theirs again.
    Done {
        /// The decision that admits it; `None` if it served no workload, or that had been admitted or withdrawn before.
        admission: Option<Box<Admission>>,
        /// Victims that were spared.
        spared: BTreeSet<String>,
        /// What else happened.
        news: AdmissionEffects,
    },
    /// Not yet. Nothing was changed but what could be set aside.
    NotYet {
        /// What is still missing of the kind.
        missing: u64,
        /// Why the demand is not admitted though nothing is missing: codes of the decision.
        codes: Vec<String>,
    },
}

/// What the end of a reclaim came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfenceOutcome {
    /// Victims that were spared.
    pub spared: BTreeSet<String>,
    /// What else happened.
    pub news: AdmissionEffects,
}

/// Begins a reclaim, or adds victims to it: marks the victims, notes the reclaim in the account, sets aside what is free.
///
/// # Errors
/// What the view lacks.
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
            return Ok(FenceOutcome::Stale { why: format!("{name} does not wait in {}", fence.workspace) });
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

/// A victim was observed to be gone and its GPUs free: they are in transit to the demand, and it is back in line. Called again,
/// and for one that ended meanwhile, it changes nothing.
///
/// # Errors
/// What the view lacks; a permanent `reclaim.not_ours` for a victim of another.
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

/// Admits the demand to what was set aside for it and ends the reclaim, in one commit.
///
/// # Errors
/// What the view lacks; a permanent `reclaim.not_ours` when the execution does not reclaim the kind.
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
    // The reclaim starts its demand itself, and ends only then.
    desk.effects.starts.retain(|start| start.workload != admission.workload);
    desk.admit_waiting(view)?;
    Ok(GrantOutcome::Done { admission: Some(Box::new(admission)), spared, news: desk.save(view)? })
}

/// How far a grant comes.
pub(in crate::scheduling::admission) enum GrantAttempt {
    /// Nobody demands any more; nothing was changed.
    Gone,
    /// So much of the kind is missing; what could be set aside is.
    Missing(u64),
    /// The reclaim is over on this desk, and the demand was decided on.
    Decided {
        /// It.
        demand: Box<Workload>,
        /// The decision, which need not admit it.
        decided: Box<PendingDecision>,
        /// Victims that still ran.
        spared: BTreeSet<String>,
    },
}

/// Ends a reclaim without a grant: victims that still run are theirs again, and what was set aside is free. Tolerates that it
/// has ended.
///
/// # Errors
/// What the view lacks.
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

    /// Grants on this desk, short of writing the decision down.
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

    /// Remembers that loans of these lenders were called back from a borrower, once a moment each, and slows it when that
    /// happens again and again (P-9).
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

    /// Puts a workload that ran back in its old place in line.
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
