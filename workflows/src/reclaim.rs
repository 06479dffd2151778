//! Reclaim: returns lent GPUs to the workspace that owns the quota.
//!
//! The planner chooses victims. A plan within the guard of policy needs no approval; beyond it approvers decide. Freed GPUs are earmarked for the demand from
//! the first one on, so no other workload gets them, and they are granted only after they were observed free. A missed deadline keeps the execution open and on
//! the list of stuck executions. The page is `docs/workflows/reclaim.md`.

mod batch_owners;
pub mod eviction;
mod examples;
mod guard_stop;
pub mod ledger;
mod planned;
mod planner_input;
pub(crate) mod planner_settings;
pub(crate) mod planning;
mod preview;
mod question;
mod record;
mod start;

pub use planned::{PlanVerdict, PlannedReclaim, ReclaimTerms};
pub use preview::preview;
pub use record::{DemandGrant, EvictionEnd, Reclaim, ReclaimCause, ReclaimProgress, VICTIM_FREED};

use crate::{
    platform::{Platform, RequeueWorkload, Scrubbed, StartWorkload, codes},
    reclaim::{eviction::Eviction, record::AT_ONCE},
    tenancy::{Resource, TenantId},
    workload_start::StartProblem,
};
use engine::{
    ChildEnd, DAY, HOUR, MINUTE, Outcome, Plan, Procedure, Rule, Seat, Step, Subject, Workflow, act,
    act_each, approval, await_signal, children, end, when,
};
use ledger::{AssessReclaim, CloseReclaim, FenceVictims, GrantDemand, PlanReclaim, Unfence};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::Timestamp;

/// The number of progress checks, one hour apart, before the demand returns to the queue.
const MOST_LOOKS: u32 = 48;

/// The state of a reclaim. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/reclaim.md"
)]
pub enum State {
    Planning,
    PlanningWithinGuard,
    Weighing,
    AwaitingApproval,
    Fencing,
    CountingPlans,
    EvictingVictims,
    Assessing,
    Judging,
    AwaitingVictims,
    Granting,
    Confirming,
    Starting,
    LeavingToOwner,
    RecordingFailedStart,
    Closing,
    Requeueing,
    Restored,
    Satisfied,
    Infeasible,
    Declined,
    Withdrawn,
    Unsettled,
}

impl Workflow for Reclaim {
    const NAME: &'static str = "reclaim";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Planning;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let (tenant, resource) = (|| self.tenant.clone(), || self.resource.clone());
        match state {
            // Choose the victims, and decide if an approval is required.
            Planning => act(self.planning(false)).nothing_to_undo().record(Self::planned).then(Weighing),
            PlanningWithinGuard => {
                act(self.planning(true)).nothing_to_undo().record(Self::planned).then(Weighing)
            }
            Weighing => when(self.verdict() == PlanVerdict::Satisfied, "no GPUs must be freed", Satisfied)
                .or_when(self.must_wait(), "evictions are running", AwaitingVictims)
                // The plan is still the approved one, and its approval is still valid.
                .waived_by(self.rule())
                .or_when(self.verdict() == PlanVerdict::Infeasible, "no workload can be evicted", Infeasible)
                .or_when(self.within_guard(), "within the guard", Fencing)
                .waived_by(self.rule())
                .otherwise("beyond the guard", AwaitingApproval),
            AwaitingApproval => approval(self.seats())
                .within(self.patience())
                .with_procedure(self.procedure())
                .granted(Fencing)
                .refused(Declined)
                .expired(PlanningWithinGuard),

            // From here GPUs of victims are earmarked for the demand. If the account has changed, plan again.
            Fencing => act(self.fence())
                .undo(Unfence { tenant: tenant(), resource: resource() })
                .record(|me: &mut Self, ()| me.begun = true)
                .on_failure(ledger::STALE, CountingPlans)
                .then(EvictingVictims),
            CountingPlans => when(self.may_plan(), "plan again", Planning)
                // Victims of an earlier plan are being evicted. Their GPUs are earmarked even if no other victims are found.
                .or_when(self.begun, "evictions are running", AwaitingVictims)
                .otherwise("the account changed too often", Unsettled),

            // One child for each victim. On a cancel, children past their pivot finish, and the others are cancelled.
            EvictingVictims => children(self.evictions())
                .map_result(|eviction: &Eviction| (eviction.workload.name.clone(), eviction.scrubbed.clone()))
                .accept_any_outcome()
                .cancel_on_undo()
                .max_concurrent(AT_ONCE)
                .within(30 * DAY)
                .record(Self::record_eviction_end)
                .then(Assessing),
            Assessing => act(AssessReclaim { tenant: tenant(), resource: resource() })
                .nothing_to_undo()
                .record(|me: &mut Self, assessed: ReclaimProgress| {
                    me.assessed = Some(assessed);
                    me.looks += 1;
                })
                .then(Judging),
            Judging => when(self.withdrawn(), "the demand was withdrawn", Withdrawn)
                .or_when(self.has_enough() && self.demands(), "enough was freed", Granting)
                .or_when(self.has_enough(), "all GPUs were freed", Closing)
                .or_when(self.may_plan(), "a victim does not end, choose others", Planning)
                .or_when(self.hopeless(), "no more GPUs will be freed", Unsettled)
                .otherwise("a victim does not end", AwaitingVictims),
            AwaitingVictims => await_signal(VICTIM_FREED).within(HOUR).then(Assessing).expired(Assessing),

            // The demand gets its GPUs in the ledger, then in the cluster. The victims return to their places in the queue.
            Granting => act(GrantDemand { tenant: tenant(), resource: resource() })
                .forward_only()
                .record(|me: &mut Self, grant: DemandGrant| me.grant = Some(grant))
                .then(Confirming),
            // The plan may have moved to other nodes since the grant, or the demand may have ended or been evicted.
            Confirming => act_each(self.confirmation())
                .forward_only()
                .record(|me: &mut Self, start: Option<StartWorkload>| me.confirmed(start))
                .then(Starting),
            // The grant stays. A workload that its cluster does not know runs when its owner submits it there. The sweep retries any other start. The victims'
            // notices are withdrawn in every case.
            Starting => act_each(self.starts())
                .forward_only()
                .within(10 * MINUTE)
                .on_failure(codes::OBJECT_MISSING, LeavingToOwner)
                .on_failure(codes::UNSUPPORTED, Requeueing)
                .or_else(RecordingFailedStart)
                .then(Requeueing),
            LeavingToOwner => {
                act(self.not_started(StartProblem::NotInCluster)).forward_only().then(Requeueing)
            }
            RecordingFailedStart => {
                act(self.not_started(StartProblem::Failed { tries: 1 })).forward_only().then(Requeueing)
            }
            Closing => {
                act(CloseReclaim { tenant: tenant(), resource: resource() }).forward_only().then(Requeueing)
            }
            Requeueing => act_each(self.requeues())
                .forward_only()
                .on_failure(codes::OBJECT_MISSING, Restored)
                // The next notice replaces one that stays, and no other reclaim depends on it.
                .or_else(Restored)
                .then(Restored),

            Restored | Satisfied => end(Outcome::Completed),
            Infeasible => end(Outcome::Rejected),
            Declined => end(Outcome::Refused),
            Withdrawn | Unsettled => end(Outcome::RolledBack),
        }
    }

    fn subject(&self) -> Subject {
        let name = match &self.cause {
            ReclaimCause::Demand { workload, .. } => format!("workload/{}/{workload}", self.tenant),
            ReclaimCause::Overdue => format!("loans/{}", self.tenant),
            ReclaimCause::Excess { workspace, .. } => format!("workspace/{}/{workspace}", self.tenant),
        };
        let guard = format!("reclaim of {} in {}", self.resource, self.tenant);
        Subject { tenant: self.tenant.to_string(), name, guard: Some(guard) }
    }

    fn plan(&self) -> Plan {
        let victims: Vec<Value> = self.victims().iter().map(Eviction::decides).collect();
        let title = match &self.cause {
            ReclaimCause::Demand { workspace, workload } => {
                format!("call back {} for {workload} of workspace {workspace}", self.resource)
            }
            ReclaimCause::Overdue => format!("call back overdue loans of {}", self.resource),
            ReclaimCause::Excess { workspace, amount } => {
                format!("call back {amount} of {} from workspace {workspace}", self.resource)
            }
        };
        let mut decides = json!({
                "kind": "reclaim",
                "tenant": self.tenant,
                "resource": self.resource,
                "cause": self.cause,
                "policy": self.terms().map(|terms| &terms.policy),
                "breaches": self.planned.as_ref().map(|planned| &planned.breaches),
                "evictions": victims,
                "simulated": self.planned.as_ref().map(|planned| planned.simulated),
        });
        let steps = self.terms().and_then(|terms| terms.steps_within);
        if let (Some(steps), Some(decides)) = (steps, decides.as_object_mut()) {
            decides.insert("steps_within".to_owned(), json!(crate::duration::show(steps)));
        }
        let others = self.planned.as_ref().map(|planned| &planned.others).filter(|others| !others.is_empty());
        if let (Some(others), Some(decides)) = (others, decides.as_object_mut()) {
            decides.insert("serves_besides".to_owned(), json!(others));
        }
        Plan {
            title,
            decides,
            placement: json!({ "explanation": self.planned.as_ref().map(|planned| &planned.explanation) }),
        }
    }

    fn promised_by(&self) -> Option<Timestamp> {
        let served = self.grant.is_some() || self.withdrawn();
        self.terms().filter(|_| self.demands() && !served).map(|terms| terms.deadline)
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

impl Reclaim {
    /// Creates a reclaim.
    #[must_use]
    pub fn new(tenant: TenantId, resource: Resource, cause: ReclaimCause) -> Self {
        Self {
            tenant,
            resource,
            cause,
            planned: None,
            why: None,
            plans: 0,
            begun: false,
            ended: Vec::new(),
            assessed: None,
            looks: 0,
            grant: None,
        }
    }

    fn terms(&self) -> Option<&ReclaimTerms> {
        self.planned.as_ref().map(|planned| &planned.terms)
    }

    fn victims(&self) -> &[Eviction] {
        self.planned.as_ref().map_or(&[], |planned| &planned.victims)
    }

    /// Returns evicted victims that have not ended, and victims that cannot be evicted because their placement is unknown.
    fn stuck(&self) -> BTreeSet<String> {
        use crate::reclaim::eviction::State;
        let states = [State::Stuck, State::Unobserved].map(<&str>::from);
        let stuck = self.ended.iter().filter(|gone| states.contains(&gone.state.as_str()));
        stuck.map(|gone| gone.workload.clone()).collect()
    }

    fn planning(&self, hard: bool) -> PlanReclaim {
        PlanReclaim {
            tenant: self.tenant.clone(),
            resource: self.resource.clone(),
            cause: self.cause.clone(),
            hard,
            stuck: self.stuck(),
            terms: self.terms().cloned(),
        }
    }

    /// Records a plan. A plan without victims does not replace the current one.
    fn planned(&mut self, planned: PlannedReclaim) {
        self.plans += 1;
        self.why.clone_from(&planned.why);
        if planned.verdict == PlanVerdict::Evict || !self.begun {
            self.planned = Some(planned);
        } else if self.why.is_none() {
            self.why = Some("no other workload can be evicted".into());
        }
    }

    fn verdict(&self) -> PlanVerdict {
        self.planned.as_ref().map_or(PlanVerdict::Infeasible, |planned| planned.verdict)
    }

    /// Returns true if evictions have begun and no other victims are available.
    fn must_wait(&self) -> bool {
        self.begun && self.why.is_some()
    }

    fn within_guard(&self) -> bool {
        self.planned.as_ref().is_some_and(|planned| planned.breaches.is_empty())
    }

    /// Returns the rule that replaces an approval within the guard.
    fn rule(&self) -> Rule {
        let none = || Rule { name: String::new(), version: String::new() };
        self.terms().map_or_else(none, |terms| Rule {
            name: format!("{}/reclaim.guard", terms.policy.name),
            version: format!("{} {}", terms.policy.version, terms.policy.digest),
        })
    }

    fn seats(&self) -> Vec<Seat> {
        self.terms().map_or_else(|| vec![Seat::new("platform_ops", 1)], |terms| terms.seats.clone())
    }

    fn procedure(&self) -> Procedure {
        self.terms().map(|terms| terms.procedure.clone()).unwrap_or_default()
    }

    fn patience(&self) -> std::time::Duration {
        self.terms().map_or(HOUR, |terms| terms.patience)
    }

    fn may_plan(&self) -> bool {
        self.plans < self.terms().map_or(1, |terms| terms.plans)
    }

    fn fence(&self) -> FenceVictims {
        FenceVictims {
            tenant: self.tenant.clone(),
            resource: self.resource.clone(),
            cause: self.cause.clone(),
            more: self.planned.as_ref().map_or(0, |planned| planned.more),
            others: self.planned.as_ref().map(|planned| planned.others.clone()).unwrap_or_default(),
            victims: self.victims().iter().map(|victim| victim.workload.name.clone()).collect(),
            deadline: self.terms().map(|terms| terms.deadline).unwrap_or_default(),
        }
    }

    fn evictions(&self) -> Vec<Eviction> {
        self.victims().to_vec()
    }

    fn record_eviction_end(&mut self, end: ChildEnd<(String, Vec<Scrubbed>)>) {
        let (workload, scrubbed) = end.data;
        self.ended.retain(|gone| gone.workload != workload);
        self.ended.push(EvictionEnd { workload, state: end.state, scrubbed });
    }

    fn demands(&self) -> bool {
        matches!(self.cause, ReclaimCause::Demand { .. })
    }

    fn withdrawn(&self) -> bool {
        self.demands() && self.assessed.as_ref().is_some_and(|assessed| assessed.withdrawn)
    }

    /// Returns true if no remaining victim can free GPUs, or the wait was long enough.
    fn hopeless(&self) -> bool {
        self.looks >= MOST_LOOKS || self.assessed.as_ref().is_some_and(|assessed| assessed.left == 0)
    }

    fn has_enough(&self) -> bool {
        self.assessed.as_ref().is_some_and(|assessed| assessed.missing == 0)
    }

    /// Returns the withdrawals of the notices to evicted workloads. Their cluster holds them until the ledger admits them again.
    fn requeues(&self) -> Vec<RequeueWorkload> {
        let cleared = [crate::reclaim::eviction::State::Cleared, crate::reclaim::eviction::State::Barred]
            .map(<&str>::from);
        let back = self.victims().iter().filter(|victim| {
            self.ended
                .iter()
                .any(|gone| gone.workload == victim.workload.name && cleared.contains(&gone.state.as_str()))
        });
        back.map(|victim| RequeueWorkload { workload: victim.workload.clone() }).collect()
    }
}
