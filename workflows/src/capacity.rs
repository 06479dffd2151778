//! Capacity exhaustion: a model is short in a region. The workflow tries remedies, mildest first.
//!
//! Policy sets the ladder. A rung that disturbs tenants or costs money needs an approval. Each rung is followed by a new measurement. A lowered reserve and
//! stopped best-effort workloads are restored when enough is free again, or when the execution gives up. It may stay open for months. The page is
//! `docs/workflows/capacity_exhaustion.md`.

mod examples;
pub(crate) mod ledger;
mod plan;
mod preview;
mod record;

pub use ledger::LoweredBuffer;
pub use preview::preview;
pub use record::{CapacityExhaustion, CapacityMeasurement, ExhaustionTerms, RungOutcome, RungTerms};

use crate::{
    platform::Platform,
    policy::Rung,
    reclaim::Reclaim,
    tenancy::{GpuModel, Gpus, RegionId, TenantId},
};
use engine::{
    ChildEnd, DAY, Outcome, Plan, Procedure, Seat, Step, Subject, Workflow, act, approval, await_signal,
    children, end, wait, when,
};
use ledger::{AssessCapacity, LowerBuffer, NoteRung, OpenTiers, RestoreBuffer, ShutTiers};
use std::time::Duration;

/// The signal that bought hardware is in the fleet.
pub const PROCURED: &str = "capacity.procured";

/// The state of an exhaustion. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/capacity_exhaustion.md"
)]
pub enum State {
    Assessing,
    Weighing,
    AwaitingRung,
    Climbing,
    RecallingLoans,
    LoweringBuffer,
    AwaitingProcurement,
    ShuttingTiers,
    NotingTaken,
    NotingRefused,
    NotingNoHands,
    NotingLapsed,
    Settling,
    AwaitingOwner,
    RestoringBuffer,
    OpeningTiers,
    ReturningBuffer,
    ReopeningTiers,
    Resolved,
    Accepted,
    Escalated,
}

impl Workflow for CapacityExhaustion {
    const NAME: &'static str = "capacity_exhaustion";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Assessing;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let (region, model) = (|| self.region.clone(), || self.model.clone());
        let note = |fate| {
            act(NoteRung { rung: self.rung(), fate }).nothing_to_undo().record(Self::noted).then(Assessing)
        };
        match state {
            // Measure the capacity and the waitlists. Is it enough, or which rung is next?
            Assessing => act(self.assessment()).nothing_to_undo().record(Self::assessed).then(Weighing),
            Weighing => when(self.settled(), "enough capacity for long enough", RestoringBuffer)
                .or_when(self.has_enough(), "enough capacity", Settling)
                .or_when(self.rung().is_none(), "all measures were tried", AwaitingOwner)
                .or_when(!self.has_hands(), "the measure is not available here", NotingNoHands)
                .or_when(self.asks(), "the measure needs approval", AwaitingRung)
                .otherwise("the measure needs no approval", Climbing),
            AwaitingRung => approval(self.seats())
                .within(self.patience())
                .with_procedure(self.procedure())
                .granted(Climbing)
                .refused(NotingRefused)
                .expired(NotingRefused),

            // One rung of the ladder. The undo of a temporary measure stays on the trail.
            Climbing => when(self.is(Rung::RecallOverdue), "reclaim overdue loans", RecallingLoans)
                .or_when(self.is(Rung::ReturnBuffer), "lower the buffer", LoweringBuffer)
                .or_when(self.is(Rung::Procure), "buy GPUs", AwaitingProcurement)
                .otherwise("stop admitting best-effort work", ShuttingTiers),
            RecallingLoans => children(self.recalls())
                .map_result(|_: &Reclaim| ())
                .accept_any_outcome()
                .cancel_on_undo()
                .within(DAY)
                .record(|_: &mut Self, _: ChildEnd<()>| ())
                .then(NotingTaken),
            LoweringBuffer => act(LowerBuffer { region: region(), model: model() })
                .undo(RestoreBuffer { region: region(), model: model() })
                .then(NotingTaken),
            AwaitingProcurement => await_signal(PROCURED)
                .forget_earlier()
                .within(self.procure_within())
                .then(NotingTaken)
                .expired(NotingLapsed),
            ShuttingTiers => act(ShutTiers { tenants: self.tenants.clone() })
                .undo(OpenTiers { tenants: self.tenants.clone() })
                .then(NotingTaken),
            NotingTaken => note(RungOutcome::Taken),
            NotingRefused => note(RungOutcome::Refused),
            NotingNoHands => note(RungOutcome::NoHands),
            NotingLapsed => note(RungOutcome::Lapsed),

            // Enough must last. Then temporary measures are undone.
            Settling => wait(self.settle_time()).then(Assessing),
            RestoringBuffer => {
                act(RestoreBuffer { region: region(), model: model() }).nothing_to_undo().then(OpeningTiers)
            }
            OpeningTiers => act(OpenTiers { tenants: self.tenants.clone() }).nothing_to_undo().then(Resolved),

            // No rung is left: an operator accepts that requests wait, or the approval escalates.
            AwaitingOwner => {
                approval([Seat { any_of: vec!["capacity_manager".into(), "admin".into()], count: 1 }])
                    .within(5 * DAY)
                    .granted(ReturningBuffer)
                    .refused(Escalated)
                    .expired(Escalated)
            }
            // The owner accepts the wait. An ended execution must not leave tenants closed.
            ReturningBuffer => {
                act(RestoreBuffer { region: region(), model: model() }).nothing_to_undo().then(ReopeningTiers)
            }
            ReopeningTiers => {
                act(OpenTiers { tenants: self.tenants.clone() }).nothing_to_undo().then(Accepted)
            }
            Resolved | Accepted => end(Outcome::Completed),
            Escalated => end(Outcome::Refused),
        }
    }

    fn subject(&self) -> Subject {
        let name = format!("capacity of {} in {}", self.model, self.region);
        Subject { tenant: String::new(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        plan::of(self)
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

impl CapacityExhaustion {
    /// Creates an exhaustion.
    #[must_use]
    pub fn new(
        region: RegionId,
        model: GpuModel,
        wanted: Gpus,
        trigger: String,
        tenants: Vec<TenantId>,
    ) -> Self {
        Self {
            region,
            model,
            wanted,
            trigger,
            tenants,
            terms: None,
            measured: Vec::new(),
            overdue: Vec::new(),
            next: 0,
            tried: Vec::new(),
        }
    }

    fn assessment(&self) -> AssessCapacity {
        AssessCapacity {
            region: self.region.clone(),
            model: self.model.clone(),
            wanted: self.wanted,
            tenants: self.tenants.clone(),
        }
    }

    fn assessed(&mut self, (terms, measured): (ExhaustionTerms, CapacityMeasurement)) {
        self.overdue.clone_from(&measured.overdue);
        self.terms.get_or_insert(terms);
        self.measured.push(measured);
        let many = self.measured.len().saturating_sub(10);
        self.measured.drain(..many);
    }

    fn noted(&mut self, (rung, fate): (Option<Rung>, RungOutcome)) {
        self.tried.extend(rung.map(|rung| (rung, fate)));
        self.next += 1;
    }

    fn has_enough(&self) -> bool {
        self.measured.last().is_some_and(|measured| measured.enough)
    }

    /// Returns true if the last two measurements were enough and far enough apart.
    fn settled(&self) -> bool {
        let [.., before, last] = self.measured.as_slice() else { return false };
        before.enough && last.enough && last.at.since(before.at) >= self.settle_time()
    }

    fn climb(&self) -> Option<&RungTerms> {
        self.terms.as_ref()?.ladder.get(self.next)
    }

    fn rung(&self) -> Option<Rung> {
        self.climb().map(|climb| climb.rung)
    }

    fn is(&self, rung: Rung) -> bool {
        self.rung() == Some(rung)
    }

    /// Returns true if an actuator for the rung is available.
    fn has_hands(&self) -> bool {
        match self.rung() {
            Some(Rung::RecallOverdue | Rung::ReturnBuffer | Rung::Procure | Rung::Degrade) => true,
            Some(_) | None => false,
        }
    }

    fn asks(&self) -> bool {
        self.climb().is_some_and(|climb| !climb.seats.is_empty())
    }

    fn seats(&self) -> Vec<Seat> {
        let usual = || vec![Seat::new("capacity_manager", 1)];
        self.climb().map(|climb| climb.seats.clone()).filter(|seats| !seats.is_empty()).unwrap_or_else(usual)
    }

    fn procedure(&self) -> Procedure {
        self.climb().map(|climb| climb.procedure.clone()).unwrap_or_default()
    }

    fn patience(&self) -> Duration {
        self.climb().map_or(DAY, |climb| climb.within)
    }

    fn procure_within(&self) -> Duration {
        self.terms.as_ref().map_or(180 * DAY, |terms| terms.procure_within)
    }

    fn settle_time(&self) -> Duration {
        self.terms.as_ref().map_or(DAY, |terms| terms.settle)
    }

    fn recalls(&self) -> Vec<Reclaim> {
        let resource = || crate::tenancy::Resource::gpus(self.model.clone());
        let recall = |tenant: &TenantId| {
            Reclaim::new(tenant.clone(), resource(), crate::reclaim::ReclaimCause::Overdue)
        };
        self.overdue.iter().map(recall).collect()
    }
}
