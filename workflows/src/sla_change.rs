//! SLA change: another tier, isolation level, or setting for preemption or GPU sharing.
//!
//! Always needs an approval, also for a lower service level. Waits for the tenant's maintenance window. Ensures that the new service level is possible and
//! stays possible: limits only get tighter before the commit, and looser after it. Then changes the platform workspace by workspace, and commits: from there
//! the tenant has the new service level. An earlier failure leaves everything unchanged. The page is `docs/workflows/sla_change.md`.

mod evaluate;
mod examples;
mod ledger;
mod plan;
mod preview;
mod record;
mod request;
mod resources;

pub use evaluate::{SlaDecision, SlaEvaluation, SlaFacts, SlaTerms, SlaWorkspace, evaluate};
pub use ledger::{CommitSla, EvaluateSla, KeepWindow, LoosenSla, MeasureSla, TightenSla, sla_facts};
pub use preview::preview;
pub use record::SlaChange;
pub use request::SlaRequest;

use crate::{
    ledger::codes,
    platform::{GpuLayout, LayerLimits, Platform, RestoreCohortQuota, RestoreNamespaceLabels},
    policy::Reason,
};
use engine::{
    MINUTE, Outcome, Plan, RetryPolicy, Step, Subject, Workflow, act, act_each, approval, await_signal, end,
    when,
};
use std::time::Duration;
use store::Timestamp;

/// The state of an SLA change. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/sla_change.md"
)]
pub enum State {
    Evaluating,
    Deciding,
    AwaitingApproval,
    ReadingClock,
    AwaitingWindow,
    Tightening,
    MeasuringConformance,
    CheckingPatience,
    AwaitingConformance,
    TighteningAgain,
    AwaitingPatience,
    ReadingLayouts,
    ShapingGpus,
    Qualifying,
    ReadingLimits,
    ChangingCohort,
    ChangingFirstLayer,
    ChangingSecondLayer,
    Relabelling,
    Verifying,
    Committing,
    Effective,
    Rejected,
    Declined,
    Lapsed,
}

/// The signal that opens the window at once.
pub const WINDOW_OPENED: &str = "window.opened";
/// The signal that the obstacle to the service level may be gone.
pub const CONFORMS: &str = "sla.conforms";

impl Workflow for SlaChange {
    const NAME: &'static str = "sla_change";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Evaluating;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let tenant = self.request.tenant.clone();
        match state {
            // The request. An approval is always required; the decision is kept in every outcome.
            Evaluating => act(EvaluateSla { request: self.request.clone() })
                .nothing_to_undo()
                .record(Self::evaluated)
                .then(Deciding),
            Deciding => when(self.terms.is_none(), "rejected by policy", Rejected)
                .otherwise("approval is needed", AwaitingApproval),
            AwaitingApproval => approval(self.seats())
                .within(self.waits().approve)
                .with_procedure(self.procedure())
                .granted(ReadingClock)
                .refused(Declined)
                .expired(Lapsed),

            // The tenant's maintenance window.
            ReadingClock => act(KeepWindow { opens: self.request.not_before })
                .nothing_to_undo()
                .record(|me: &mut Self, opens_in: Duration| me.opens_in = opens_in)
                .then(AwaitingWindow),
            AwaitingWindow => await_signal(WINDOW_OPENED)
                .forget_earlier()
                .within(self.opens_in)
                .then(Tightening)
                .expired(Tightening),

            // The ledger first: check the service level, and stop admissions that would break it.
            Tightening => act(self.tightening())
                .undo(LoosenSla { tenant, terms: self.terms.clone() })
                .on_failure(codes::PROMISE_OPEN, MeasuringConformance)
                .then(ReadingLayouts),
            MeasuringConformance => {
                act(self.measuring()).nothing_to_undo().record(Self::measured).then(CheckingPatience)
            }
            CheckingPatience => {
                when(self.overdue, "the tenant's use prevented the change for too long", AwaitingPatience)
                    .otherwise("continue to wait", AwaitingConformance)
            }
            AwaitingConformance => await_signal(CONFORMS)
                .within(self.waits().recheck)
                .then(TighteningAgain)
                .expired(TighteningAgain),
            // The undo of `Tightening` on the trail covers it.
            TighteningAgain => act(self.tightening())
                .nothing_to_undo()
                .on_failure(codes::PROMISE_OPEN, MeasuringConformance)
                .then(ReadingLayouts),
            AwaitingPatience => approval(self.patience_seats())
                .within(self.waits().patience)
                .with_procedure(self.procedure())
                .granted(TighteningAgain)
                .refused(Declined)
                .expired(Lapsed),

            // The nodes, if their GPUs get another layout: one after the other, each tested.
            ReadingLayouts => act_each(self.layout_readings())
                .nothing_to_undo()
                .record(|me: &mut Self, layout: GpuLayout| me.layouts.push(layout.profile))
                .then(ShapingGpus),
            ShapingGpus => act_each(self.layout_settings())
                .undo_each(|setting| self.layout_before(setting))
                .max_concurrent(1)
                .then(Qualifying),
            Qualifying => act_each(self.diagnoses())
                .nothing_to_undo()
                .attempt_within(20 * MINUTE)
                .within(45 * MINUTE)
                .then(ReadingLimits),

            // The platform, workspace by workspace. A tighter limit begins at the child, a looser one at the parent.
            ReadingLimits => act_each(self.limit_readings())
                .nothing_to_undo()
                .record(|me: &mut Self, limits: LayerLimits| me.limits.push(limits))
                .then(ChangingCohort),
            // Only if quotas count another kind from here on: whole GPUs, or slices.
            ChangingCohort => act_each(self.cohort_changes())
                .undo_each(|change| RestoreCohortQuota { change: change.clone() })
                .max_concurrent(1)
                .then(ChangingFirstLayer),
            ChangingFirstLayer => self.first_layer(ChangingSecondLayer),
            ChangingSecondLayer => self.second_layer(Relabelling),
            Relabelling => act_each(self.relabellings())
                .undo_each(|change| RestoreNamespaceLabels { change: change.clone() })
                .max_concurrent(1)
                .then(Verifying),
            Verifying => act_each(self.keepings())
                .nothing_to_undo()
                .retry(RetryPolicy { attempts: 4, ..RetryPolicy::default() })
                .then(Committing),

            // The commit checks the service level again. Only another change leads back.
            Committing => act(CommitSla { tenant, terms: self.terms.clone() }).forward_only().then(Effective),

            Effective => end(Outcome::Completed),
            Rejected => end(Outcome::Rejected),
            Declined => end(Outcome::Refused),
            Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        let name = format!("tenant/{}", self.request.tenant);
        Subject { tenant: self.request.tenant.to_string(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        plan::of(self)
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

impl SlaChange {
    /// Creates a change.
    #[must_use]
    pub fn new(request: SlaRequest) -> Self {
        Self {
            request,
            verdict: None,
            reasons: Vec::new(),
            terms: None,
            opens_in: Duration::ZERO,
            waiting_since: None,
            overdue: false,
            layouts: Vec::new(),
            limits: Vec::new(),
        }
    }

    fn evaluated(&mut self, evaluation: SlaEvaluation) {
        let SlaEvaluation { verdict, reasons, terms } = evaluation;
        self.verdict = Some(verdict);
        self.reasons = reasons.into_iter().filter(Reason::counts).collect();
        self.terms = terms;
    }

    fn measured(&mut self, (since, overdue): (Timestamp, bool)) {
        self.waiting_since = Some(since);
        self.overdue = overdue;
    }
}
