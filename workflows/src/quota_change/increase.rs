//! Quota increase: from a request for more to a limit in force in every layer.
//!
//! First reserves capacity. Then raises the layers of the platform from parent to child, the namespace's hard limit last: from there the tenant can use the
//! quota, and the change cannot be undone. The ledger, which admission uses, is the innermost layer and follows at the end. A failure before the hard limit
//! leaves platform and ledger unchanged. A temporary increase stores its end in the quota, and a sweep starts the decrease then. An execution that waited for
//! the end would hold the workspace's guard for months. The page is `docs/workflows/quota_increase.md`.

mod examples;
mod plan;
mod preview;
mod record;
mod resources;
mod results;

pub use preview::preview;
pub use record::QuotaIncrease;

use crate::{
    ledger::{JoinedWaitlist, LeaveWaitlist, codes},
    onboarding::CAPACITY_FREED,
    platform::{
        GpuLayout, LayerLimits, Platform, ReadLimits, RestoreCohortQuota, RestoreQueueQuota, TakeNode,
    },
    quota_change::{Direction, EvaluateChange, QuarantineHeld, ReleaseCapacity},
};
use engine::{
    HOUR, MINUTE, Outcome, Plan, RetryPolicy, Step, Subject, Workflow, act, act_each, approval, await_signal,
    end, when,
};

/// The state of an increase. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/quota_increase.md"
)]
pub enum State {
    Evaluating,
    Deciding,
    AwaitingApproval,
    Holding,
    JoiningWaitlist,
    WaitingForCapacity,
    HoldingFreed,
    KeepingPlace,
    CheckingPatience,
    AwaitingPatience,
    ExtendingWait,
    PreparingNodes,
    TakingNodes,
    ReadingLayouts,
    ShapingGpus,
    Qualifying,
    Judging,
    Quarantining,
    CountingUnfit,
    Replacing,
    ReadingLimits,
    RaisingCohort,
    RaisingQueue,
    RaisingLimit,
    Verifying,
    Granting,
    Effective,
    Rejected,
    Declined,
    Lapsed,
    OutOfNodes,
}

impl Workflow for QuotaIncrease {
    const NAME: &'static str = "quota_increase";
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
                act(EvaluateChange { request: self.request.clone(), direction: Direction::Increase })
                    .nothing_to_undo()
                    .record(Self::evaluated)
                    .then(Deciding)
            }
            Deciding => when(self.rejected(), "rejected by policy", Rejected)
                .or_when(steps.waived(), "within the automatic limit", Holding)
                .waived_by(steps.rule())
                .otherwise("approval is needed", AwaitingApproval),
            AwaitingApproval => approval(steps.seats())
                .within(steps.waits().approve)
                .with_procedure(steps.procedure())
                .granted(Holding)
                .refused(Declined)
                .expired(Lapsed),

            // The required capacity, reserved in the ledger in its state after the approval.
            Holding => act(self.holding())
                .undo(ReleaseCapacity { tenant })
                .record(Self::record_hold)
                .on_failure(codes::SHORT, JoiningWaitlist)
                .then(PreparingNodes),
            JoiningWaitlist => act_each(self.joining())
                .undo_each(|joining| LeaveWaitlist {
                    ask: joining.ask.clone(),
                    constraints: joining.constraints.clone(),
                })
                .record(|me: &mut Self, joined: JoinedWaitlist| me.overdue = joined.overdue)
                .then(WaitingForCapacity),
            WaitingForCapacity => await_signal(CAPACITY_FREED)
                .within(steps.waits().recheck)
                .then(HoldingFreed)
                .expired(HoldingFreed),
            // The undo of `Holding` and `JoiningWaitlist` on the trail covers these states, even if they are entered again.
            HoldingFreed => act(self.holding())
                .nothing_to_undo()
                .record(Self::record_hold)
                .on_failure(codes::SHORT, KeepingPlace)
                .then(PreparingNodes),
            KeepingPlace => act_each(self.joining())
                .nothing_to_undo()
                .record(|me: &mut Self, joined: JoinedWaitlist| me.overdue = joined.overdue)
                .then(CheckingPatience),
            CheckingPatience => when(self.overdue, "waited too long", AwaitingPatience)
                .otherwise("continue to wait", WaitingForCapacity),
            AwaitingPatience => approval(steps.patience_seats())
                .within(steps.waits().patience)
                .with_procedure(steps.procedure())
                .granted(ExtendingWait)
                .refused(Declined)
                .expired(Lapsed),
            ExtendingWait => act_each(self.extension()).nothing_to_undo().then(WaitingForCapacity),

            // The missing nodes, if any: labelled, tainted, partitioned and tested like those of an onboarding.
            PreparingNodes => act_each(self.preparations()).nothing_to_undo().then(TakingNodes),
            TakingNodes => act_each(self.new_nodes().takings())
                .undo_each(TakeNode::undo)
                .within(self.new_nodes().time_limit(HOUR))
                .then(ReadingLayouts),
            ReadingLayouts => act_each(self.new_nodes().layout_readings())
                .nothing_to_undo()
                .record(|me: &mut Self, layout: GpuLayout| me.layouts.push(layout.profile))
                .within(self.new_nodes().time_limit(HOUR))
                .then(ShapingGpus),
            ShapingGpus => act_each(self.new_nodes().layout_settings(&self.profile()))
                .undo_each(self.new_nodes().layout_before())
                .within(self.new_nodes().time_limit(HOUR))
                .then(Qualifying),
            Qualifying => act_each(self.new_nodes().qualifications())
                .nothing_to_undo()
                .record(Self::qualified)
                .attempt_within(20 * MINUTE)
                .within(self.new_nodes().time_limit(45 * MINUTE))
                .then(Judging),
            Judging => when(self.unfit.is_empty(), "all nodes are fit", ReadingLimits)
                .otherwise("some nodes are unfit", Quarantining),
            Quarantining => act(QuarantineHeld { tenant, unfit: self.unfit.clone() })
                .nothing_to_undo()
                .record(|me: &mut Self, (): ()| me.quarantined())
                .then(CountingUnfit),
            CountingUnfit => {
                when(self.replaceable(), "replace", Replacing).otherwise("too many unfit nodes", OutOfNodes)
            }
            Replacing => act(self.holding()).nothing_to_undo().record(Self::record_hold).then(PreparingNodes),

            // The layers, parent before child. If one fails, the previous values are restored.
            ReadingLimits => act(ReadLimits { of: steps.names() })
                .nothing_to_undo()
                .record(|me: &mut Self, limits: LayerLimits| me.limits = limits)
                .then(RaisingCohort),
            RaisingCohort => act_each(steps.cohort())
                .undo_each(|change| RestoreCohortQuota { change: change.clone() })
                .then(RaisingQueue),
            RaisingQueue => act_each(steps.queue())
                .undo_each(|change| RestoreQueueQuota { change: change.clone() })
                .then(RaisingLimit),
            // The pivot: from here the tenant can use the quota. Only a decrease undoes the following steps.
            RaisingLimit => match steps.association() {
                Some(change) => act(change).forward_only().then(Verifying),
                None => act_each(steps.hard()).forward_only().then(Verifying),
            },
            // Read back, and set drifted values again, three times at most.
            Verifying => act(steps.keeping())
                .forward_only()
                .retry(RetryPolicy { attempts: 4, ..RetryPolicy::default() })
                .then(Granting),
            Granting => act(self.grant()).forward_only().then(Effective),

            Effective => end(Outcome::Completed),
            Rejected => end(Outcome::Rejected),
            Declined => end(Outcome::Refused),
            Lapsed => end(Outcome::Expired),
            OutOfNodes => end(Outcome::RolledBack),
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
