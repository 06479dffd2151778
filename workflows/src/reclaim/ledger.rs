//! What a reclaim decides on the books: its plan, its fence, what was freed, and the grant. Each is one commit.

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

/// The books have moved on since the plan was made.
pub const STALE: &str = "reclaim.stale";
/// Another execution calls the kind back.
pub const BUSY: &str = "reclaim.busy";
/// The demand cannot be granted yet.
pub const NOT_YET: &str = "reclaim.not_yet";

/// Who starts reclaims that nobody asked for in person.
pub const SYSTEM_ACTOR: &str = "tenure";

/// Chooses who must give way, as the books stand. Changes nothing, so it is safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanReclaim {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
    pub resource: Resource,
    /// Why.
    pub cause: ReclaimCause,
    /// Whether no plan beyond the guard is made.
    pub hard: bool,
    /// Workloads that were evicted and do not end.
    pub stuck: BTreeSet<String>,
    /// The terms of an earlier plan, which hold on.
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

/// Marks the victims and sets aside for the demand what is free, so that nobody gets between (I-10, I-15).
///
/// Safe to decide again. `reclaim.stale` when the plan no longer holds, and nothing is changed. Its undo, [`Unfence`],
/// tolerates that nothing was fenced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FenceVictims {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
    pub resource: Resource,
    /// Why.
    pub cause: ReclaimCause,
    /// What is freed for others of the demand's line besides.
    #[serde(default)]
    pub more: u64,
    /// Workloads of other workspaces that it frees for.
    #[serde(default)]
    pub others: Vec<Beneficiary>,
    /// Who has to give way, by name.
    pub victims: BTreeSet<String>,
    /// When the promise is broken.
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
            FenceOutcome::NothingToDo => Err(stale("the demand waits no more".into())),
            FenceOutcome::Stale { why } => Err(stale(why)),
            FenceOutcome::Busy { by } => {
                let why = format!("{by} calls back {} of {}", self.resource, self.tenant);
                Err(ActionError::transient(BUSY, why).into())
            }
        }
    }
}

impl FenceVictims {
    /// Loans are called back for whoever waits: the account that the note is kept under does not matter.
    fn any_account(&self, view: &mut View) -> Result<WorkspaceName, Undecided> {
        let cohort = view.require::<Cohort>(self.tenant.as_str())?;
        let first = cohort.accounts.keys().next().cloned();
        first.ok_or_else(|| stale(format!("tenant {} has no account", self.tenant)))
    }
}

fn stale(why: String) -> Undecided {
    ActionError::permanent(STALE, why).into()
}

/// Ends a reclaim without a grant: victims that still run are theirs again, and what was set aside is free. Safe to run
/// twice, and tolerates that nothing was fenced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unfence {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
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
    /// Whoever gave this reclaim up does not want another one for the same demand in the same breath: the sweep asks again,
    /// after a while.
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

/// Looks how far a reclaim has come. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AssessReclaim {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
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

/// Admits the demand to what was set aside for it: decision, GPUs, and the end of the loans in one commit.
///
/// Safe to decide again. `reclaim.not_yet`, as pending, while anything stands in the way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantDemand {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
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

/// Ends a reclaim that served nobody in particular. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloseReclaim {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
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

/// For whom the last reclaim of a kind was started, so that one demand starts one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReclaim {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
    pub resource: Resource,
    /// The workload that demanded.
    pub workload: String,
    /// Since when it waited.
    pub since: Timestamp,
    /// Counts the reclaims that were started for this tenant and kind.
    pub number: u64,
    /// When this one was.
    pub at: Timestamp,
}

impl LastReclaim {
    /// The id of the record of `tenant` and `resource`.
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

/// Starts a reclaim for every demand that `news` tells of, in the same commit. One that was started for stays started for:
/// what became of it is looked at by the sweep, which calls [`start_reclaim`].
///
/// # Errors
/// What the view lacks.
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

/// Starts a reclaim for a demand, whether one was started for it before or not.
///
/// # Errors
/// What the view lacks.
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
