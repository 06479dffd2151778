//! Ledger actions of a reclaim: plan, fence, progress and grant. Each is one commit.

use super::{
    Reclaim, ReclaimCause,
    planned::{PlannedReclaim, ReclaimTerms},
    planning,
    question::PlanningQuery,
};
use crate::{
    reclaim::record::{DemandGrant, ReclaimProgress},
    scheduling::admission::{self, AdmissionEffects, FenceOutcome, GrantOutcome},
    tenancy::{Admission, Beneficiary, Cohort, Resource, TenantId, Workload, WorkspaceName},
};

pub use crate::workload_start::start_command;
use engine::{ActionError, Call, Entity, LedgerAction, SECOND, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{CompositeKey, ExecutionId, Timestamp};

/// The account has changed since the plan.
pub const STALE: &str = "reclaim.stale";
/// Another execution reclaims the kind.
pub const BUSY: &str = "reclaim.busy";
/// The demand cannot be granted yet.
pub const NOT_YET: &str = "reclaim.not_yet";

/// The actor of automatic reclaims.
pub const SYSTEM_ACTOR: &str = "tenure";

/// Plans the victims by the current account. Changes nothing, so it is safe to repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanReclaim {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
    /// The cause.
    pub cause: ReclaimCause,
    /// True if plans beyond the guard are rejected.
    pub hard: bool,
    /// Evicted workloads that do not end.
    pub stuck: BTreeSet<String>,
    /// The terms of an earlier plan, which stay in force.
    pub terms: Option<ReclaimTerms>,
}

impl LedgerAction for PlanReclaim {
    const NAME: &'static str = "PlanReclaim";
    type Output = PlannedReclaim;

    fn decide(&self, view: &mut View, _: &Call) -> Result<PlannedReclaim, Undecided> {
        let question = PlanningQuery {
            tenant: &self.tenant,
            resource: &self.resource,
            cause: &self.cause,
            hard: self.hard,
            stuck: &self.stuck,
            terms: self.terms.as_ref(),
        };
        planning::plan(view, &question)
    }
}

/// Marks the victims and earmarks free GPUs for the demand, so that no other workload gets them (I-10, I-15).
///
/// Safe to repeat. Fails with `reclaim.stale` without changes if the plan is outdated. Its undo, [`Unfence`], tolerates that nothing was fenced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FenceVictims {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
    /// The cause.
    pub cause: ReclaimCause,
    /// The amount to free for other workloads of the demand's queue.
    #[serde(default)]
    pub more: u64,
    /// Beneficiaries in other workspaces.
    #[serde(default)]
    pub others: Vec<Beneficiary>,
    /// The victims by name.
    pub victims: BTreeSet<String>,
    /// The deadline of the promise.
    pub deadline: Timestamp,
}

impl LedgerAction for FenceVictims {
    const NAME: &'static str = "FenceVictims";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let (workspace, workload) = match &self.cause {
            ReclaimCause::Demand { workspace, workload } => (workspace.clone(), Some(workload.clone())),
            ReclaimCause::Excess { workspace, .. } => (workspace.clone(), None),
            ReclaimCause::Overdue => (self.any_account(view)?, None),
        };
        let fence = admission::Fence {
            tenant: self.tenant.clone(),
            resource: self.resource.clone(),
            execution: call.execution,
            workspace,
            workload,
            more: self.more,
            others: self.others.clone(),
            victims: self.victims.clone(),
            deadline: self.deadline,
        };
        match admission::fence(view, &fence)? {
            FenceOutcome::Done { .. } => Ok(()),
            FenceOutcome::NothingToDo => Err(stale("the demand is not queued any more".into())),
            FenceOutcome::Stale { why } => Err(stale(why)),
            FenceOutcome::Busy { by } => {
                let why = format!("{by} already reclaims {} of {}", self.resource, self.tenant);
                Err(ActionError::transient(BUSY, why).into())
            }
        }
    }
}

impl FenceVictims {
    /// Returns any account: overdue loans are reclaimed for all queued workloads, so the account of the record does not matter.
    fn any_account(&self, view: &mut View) -> Result<WorkspaceName, Undecided> {
        let cohort = view.require::<Cohort>(self.tenant.as_str())?;
        let first = cohort.accounts.keys().next().cloned();
        first.ok_or_else(|| stale(format!("tenant {} has no account", self.tenant)))
    }
}

fn stale(why: String) -> Undecided {
    ActionError::permanent(STALE, why).into()
}

/// Ends a reclaim without a grant: spares victims that still run and frees the earmarks. Safe to repeat, and tolerates that nothing was fenced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unfence {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
}

impl LedgerAction for Unfence {
    const NAME: &'static str = "Unfence";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        self.remember(view, call.execution)?;
        let ended = admission::unfence(view, &self.tenant, &self.resource, call.execution)?;
        start_reclaims(view, &ended.news)
    }
}

impl Unfence {
    /// Records an undone reclaim, so that its demand does not start another at once. The sweep starts it again after a while.
    fn remember(&self, view: &mut View, execution: ExecutionId) -> Result<(), Undecided> {
        let Some(cohort) = view.get::<Cohort>(self.tenant.as_str())? else { return Ok(()) };
        let ours = cohort.reclaims.get(&self.resource).filter(|reclaim| reclaim.execution == execution);
        let Some(name) = ours.and_then(|reclaim| reclaim.workload.clone()) else { return Ok(()) };
        let Some(demand) = view.get::<Workload>(&Workload::key(&self.tenant, &name))? else { return Ok(()) };
        let before = view.get::<LastReclaim>(&LastReclaim::key(&self.tenant, &self.resource))?;
        view.put(&LastReclaim {
            tenant: self.tenant.clone(),
            resource: self.resource.clone(),
            workload: name,
            since: demand.submitted_at,
            number: before.map_or(0, |asked| asked.number),
            at: view.now(),
        })
    }
}

/// Measures the progress of a reclaim. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AssessReclaim {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
}

impl LedgerAction for AssessReclaim {
    const NAME: &'static str = "AssessReclaim";
    type Output = ReclaimProgress;

    fn decide(&self, view: &mut View, call: &Call) -> Result<ReclaimProgress, Undecided> {
        let cohort = view.require::<Cohort>(self.tenant.as_str())?;
        let ours = cohort.reclaims.get(&self.resource).filter(|reclaim| reclaim.execution == call.execution);
        let Some(reclaim) = ours else { return Ok(ReclaimProgress { missing: 0, left: 0, withdrawn: true }) };
        let left = u64::try_from(reclaim.victims.len()).unwrap_or(u64::MAX);
        if reclaim.workload.is_none() {
            return Ok(ReclaimProgress { missing: left, left, withdrawn: true });
        }
        let account = cohort.accounts.get(&reclaim.workspace);
        let aside = account.map_or(0, |account| account.balance(&self.resource).in_transit);
        Ok(ReclaimProgress { missing: reclaim.wanted.saturating_sub(aside), left, withdrawn: false })
    }
}

/// Admits the demand to its earmarked GPUs: decision, GPUs, and the end of the loans in one commit.
///
/// Safe to repeat. Pending with `reclaim.not_yet` while it cannot be admitted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantDemand {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
}

impl LedgerAction for GrantDemand {
    const NAME: &'static str = "GrantDemand";
    type Output = DemandGrant;

    fn decide(&self, view: &mut View, call: &Call) -> Result<DemandGrant, Undecided> {
        let cohort = view.require::<Cohort>(self.tenant.as_str())?;
        let deadline = cohort.reclaims.get(&self.resource).map(|reclaim| reclaim.deadline);
        let at = view.now();
        let in_time = deadline.is_none_or(|deadline| at <= deadline);
        match admission::grant(view, &self.tenant, &self.resource, call.execution)? {
            GrantOutcome::NotYet { missing, codes } => {
                let why = if missing > 0 { format!("{missing} missing") } else { codes.join(", ") };
                Err(ActionError { message: why, ..ActionError::pending(NOT_YET, 5 * SECOND) }.into())
            }
            GrantOutcome::Done { admission, news, .. } => {
                start_reclaims(view, &news)?;
                let decision =
                    admission.as_ref().map(|admission| Admission::key(&self.tenant, admission.number));
                let start = match admission {
                    Some(admission) => start_command(view, &self.tenant, &admission.workload)?,
                    None => None,
                };
                Ok(DemandGrant { start, decision, at, in_time })
            }
        }
    }
}

/// Ends a reclaim without a demand. Safe to repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloseReclaim {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
}

impl LedgerAction for CloseReclaim {
    const NAME: &'static str = "CloseReclaim";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let ended = admission::unfence(view, &self.tenant, &self.resource, call.execution)?;
        start_reclaims(view, &ended.news)
    }
}

/// The last reclaim of a kind, so that one demand starts only one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReclaim {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
    /// The workload of the demand.
    pub workload: String,
    /// The start of its wait.
    pub since: Timestamp,
    /// The number of reclaims so far for this tenant and kind.
    pub number: u64,
    /// The time of this start.
    pub at: Timestamp,
}

impl LastReclaim {
    /// Returns the id of the record of `tenant` and `resource`.
    pub(crate) fn key(tenant: &TenantId, resource: &Resource) -> String {
        CompositeKey::of(&[&tenant]).tail(resource).into()
    }
}

impl Entity for LastReclaim {
    const COLLECTION: &'static str = "reclaims-asked";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::key(&self.tenant, &self.resource)
    }
}

/// Starts a reclaim for each demand in `news`, in the same commit, unless one was started for it before. The sweep checks the outcome and calls
/// [`start_reclaim`].
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn start_reclaims(view: &mut View, news: &AdmissionEffects) -> Result<(), Undecided> {
    for demand in &news.demands {
        let id = LastReclaim::key(&demand.tenant, &demand.resource);
        let before = view.get::<LastReclaim>(&id)?;
        let same = |asked: &LastReclaim| asked.workload == demand.workload && asked.since == demand.since;
        if !before.as_ref().is_some_and(same) {
            start_reclaim(view, demand)?;
        }
    }
    Ok(())
}

/// Starts a reclaim for a demand, even if one was started for it before.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn start_reclaim(view: &mut View, demand: &admission::ReclaimDemand) -> Result<(), Undecided> {
    let before = view.get::<LastReclaim>(&LastReclaim::key(&demand.tenant, &demand.resource))?;
    let asked = LastReclaim {
        tenant: demand.tenant.clone(),
        resource: demand.resource.clone(),
        workload: demand.workload.clone(),
        since: demand.since,
        number: before.map_or(0, |asked| asked.number).saturating_add(1),
        at: view.now(),
    };
    let cause =
        ReclaimCause::Demand { workspace: demand.workspace.clone(), workload: demand.workload.clone() };
    let reclaim = Reclaim::new(demand.tenant.clone(), demand.resource.clone(), cause);
    let key = CompositeKey::of(&[&"reclaim", &asked.tenant, &asked.resource, &asked.number]);
    view.put(&asked)?;
    view.start(&reclaim, SYSTEM_ACTOR, &key)
}
