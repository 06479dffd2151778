//! Quota decrease: from a request for less to a limit in force in every layer.
//!
//! Starts with the tightest layer, the ledger: from there no workload above the new quota is admitted. The difference is reserved, so that no other workspace
//! gets GPUs that the platform may still allow. While usage exceeds the new quota, the workspace admits nothing, and the execution waits. Then the layers of
//! the platform follow, child before parent. Everything can be undone until the last step releases the difference. The page is
//! `docs/workflows/quota_decrease.md`.

mod examples;
mod plan;
mod preview;
mod record;

pub use preview::{Preview, preview};
pub use record::QuotaDecrease;

use crate::{
    ledger::codes,
    platform::{
        LayerLimits, Platform, ReadLimits, RestoreAssociationLimit, RestoreCohortQuota, RestoreQueueQuota,
        RestoreResourceQuota,
    },
    policy::Reason,
    quota_change::{
        ChangeEvaluation, CheckUse, Direction, EvaluateChange, ExcessMeasured, LayerSteps, LowerQuota,
        MeasureExcess, QuotaRequest, RestoreQuota, SettleDecrease,
    },
};
use engine::{
    Outcome, Plan, RetryPolicy, Step, Subject, Workflow, act, act_each, approval, await_signal, end, when,
};
use store::Timestamp;

/// The state of a decrease. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/quota_decrease.md"
)]
pub enum State {
    Evaluating,
    Deciding,
    AwaitingApproval,
    Lowering,
    CheckingUse,
    NotingExcess,
    DrainingExcess,
    CheckingUseAgain,
    MeasuringExcess,
    CheckingPatience,
    AwaitingPatience,
    ReadingLimits,
    LoweringLimit,
    LoweringQueue,
    LoweringCohort,
    Verifying,
    Settling,
    Effective,
    Rejected,
    Declined,
    Lapsed,
}

/// The signal that wakes a decrease when usage has fallen.
pub const USE_FELL: &str = "quota.use_fell";

impl Workflow for QuotaDecrease {
    const NAME: &'static str = "quota_decrease";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Evaluating;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let (tenant, steps) = (self.request.tenant.clone(), self.steps());
        match state {
            // The request and its approval. The decision is kept in every outcome.
            Evaluating => {
                act(EvaluateChange { request: self.request.clone(), direction: Direction::Decrease })
                    .nothing_to_undo()
                    .record(Self::evaluated)
                    .then(Deciding)
            }
            Deciding => when(self.terms.is_none(), "rejected by policy", Rejected)
                .or_when(steps.waived(), "the quota in use is kept, or its end was agreed", Lowering)
                .waived_by(steps.rule())
                .otherwise("approval is needed", AwaitingApproval),
            AwaitingApproval => approval(steps.seats())
                .within(steps.waits().approve)
                .with_procedure(steps.procedure())
                .granted(Lowering)
                .refused(Declined)
                .expired(Lapsed),

            // The tightest layer first, the ledger: usage above it continues, but no workload is admitted.
            Lowering => act(self.lowering()).undo(RestoreQuota { tenant }).then(CheckingUse),
            CheckingUse => act(self.checking())
                .nothing_to_undo()
                .on_failure(codes::QUOTA_IN_USE, NotingExcess)
                .then(ReadingLimits),
            NotingExcess => {
                act(self.measuring(None)).nothing_to_undo().record(Self::measured).then(DrainingExcess)
            }
            DrainingExcess => await_signal(USE_FELL)
                .within(steps.waits().recheck)
                .then(CheckingUseAgain)
                .expired(CheckingUseAgain),
            CheckingUseAgain => act(self.checking())
                .nothing_to_undo()
                .on_failure(codes::QUOTA_IN_USE, MeasuringExcess)
                .then(ReadingLimits),
            MeasuringExcess => act(self.measuring(self.over_limit_since))
                .nothing_to_undo()
                .record(Self::measured)
                .then(CheckingPatience),
            CheckingPatience => when(self.overdue, "still in use after the deadline", AwaitingPatience)
                .otherwise("continue to wait", DrainingExcess),
            AwaitingPatience => approval(steps.patience_seats())
                .within(steps.waits().patience)
                .with_procedure(steps.procedure())
                .granted(NotingExcess)
                .refused(Declined)
                .expired(Lapsed),

            // The layers of the platform, child before parent. If one fails, the previous values are restored.
            ReadingLimits => act(ReadLimits { of: steps.names() })
                .nothing_to_undo()
                .record(|me: &mut Self, limits: LayerLimits| me.limits = limits)
                .then(LoweringLimit),
            LoweringLimit => match steps.association() {
                Some(change) => {
                    act(change.clone()).undo(RestoreAssociationLimit { change }).then(LoweringQueue)
                }
                None => act_each(steps.hard())
                    .undo_each(|change| RestoreResourceQuota { change: change.clone() })
                    .then(LoweringQueue),
            },
            LoweringQueue => act_each(steps.queue())
                .undo_each(|change| RestoreQueueQuota { change: change.clone() })
                .then(LoweringCohort),
            LoweringCohort => act_each(steps.cohort())
                .undo_each(|change| RestoreCohortQuota { change: change.clone() })
                .then(Verifying),
            // Read back, and set drifted values again, three times at most.
            Verifying => act(steps.keeping())
                .nothing_to_undo()
                .retry(RetryPolicy { attempts: 4, ..RetryPolicy::default() })
                .then(Settling),
            // From here other workspaces may get the difference, so only an increase leads back.
            Settling => act(SettleDecrease { tenant }).forward_only().then(Effective),

            Effective => end(Outcome::Completed),
            Rejected => end(Outcome::Rejected),
            Declined => end(Outcome::Refused),
            Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        let name = self.request.subject();
        Subject { tenant: self.request.tenant.to_string(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        plan::of(self)
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

impl QuotaDecrease {
    /// Creates a decrease.
    #[must_use]
    pub fn new(request: QuotaRequest) -> Self {
        Self {
            request,
            verdict: None,
            reasons: Vec::new(),
            terms: None,
            over_limit_since: None,
            excess: 0,
            overdue: false,
            limits: LayerLimits::default(),
        }
    }

    fn evaluated(&mut self, evaluation: ChangeEvaluation) {
        let ChangeEvaluation { verdict, reasons, terms } = evaluation;
        self.verdict = Some(verdict);
        self.reasons = reasons.into_iter().filter(Reason::counts).collect();
        self.terms = terms;
    }

    fn measured(&mut self, found: ExcessMeasured) {
        self.excess = found.excess;
        self.over_limit_since = Some(found.since);
        self.overdue = found.overdue;
    }

    fn steps(&self) -> LayerSteps<'_> {
        LayerSteps { request: &self.request, terms: self.terms.as_ref(), read: &self.limits }
    }

    fn lowering(&self) -> LowerQuota {
        let (before, after) = self.steps().allowances();
        LowerQuota {
            tenant: self.request.tenant.clone(),
            workspace: self.request.workspace.clone(),
            resource: self.request.resource.clone(),
            before,
            after,
            ended: self.request.ended,
        }
    }

    fn checking(&self) -> CheckUse {
        CheckUse {
            tenant: self.request.tenant.clone(),
            workspace: self.request.workspace.clone(),
            resource: self.request.resource.clone(),
        }
    }

    fn measuring(&self, since: Option<Timestamp>) -> MeasureExcess {
        MeasureExcess {
            tenant: self.request.tenant.clone(),
            workspace: self.request.workspace.clone(),
            resource: self.request.resource.clone(),
            since,
            limit: self.steps().waits().wait,
        }
    }
}
