//! Durable, approvable, compensable state machines.
//!
//! A [`Workflow`] is a struct, an enum of states and one pure function from state to [`Step`]. The engine persists each
//! run of it (an [`Execution`]), performs its actions on a platform, asks people, waits, retries, and turns back; whatever
//! happens to the process. Everything that decides is in the pure [`transition`]; the [`Engine`] leases, performs,
//! commits and sleeps. `examples/hello.rs` is a whole workflow. This crate knows no tenant.

mod approvals;
mod authoring;
mod batch;
mod children;
mod core;
mod documents;
mod limits;
mod model;
mod operations;
mod runtime;
mod schedules;
mod search;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;

pub use crate::core::repair::{Repair, RepairKind};
pub use crate::core::transition::{Transition, transition};
pub use crate::core::unwind::pending_undos;
pub use approvals::notification::Notification;
pub use approvals::record::ApprovalCase;
pub use approvals::review::{Review, ReviewDone, Reviewed};
pub use authoring::build::{Acting, act, act_each, all, approval, await_signal, branch, end, wait, when};
pub use authoring::check::{Flaw, check};
pub use authoring::diagram::{Diagram, DiagramEdge, DiagramState, diagram};
pub use batch::{
    BATCH_CAP, BATCH_LIMIT, BATCH_RATE, BATCH_RATE_LIMIT, Batch, BatchAsk, BatchError, BatchItem,
    BatchPreview, BatchResult, BatchVerb, Batches,
};
pub use children::build::{Children, children};
pub use documents::audit_context::{Behalf, because, on_behalf};
pub use documents::preconditions::{Condition, only_if};
pub use limits::{
    Barred, Breaker, BreakerRule, BreakerState, Closed, Gate, KeyStatus, Limit, LimitError, Place, Rate,
    Waiting, WhilePending,
};
pub use model::action::{
    Action, Actuator, BoxFuture, Call, DAY, Deed, Doing, DoneTo, HOUR, Ledger, LedgerAction, MINUTE, Probe,
    Repeat, SECOND,
};
pub use model::approval::ballot::{Ballot, Person, Ruling, Seat, Verdict, Vote};
pub use model::approval::delegation::Mandate;
pub use model::approval::procedure::{BreakGlass, Escalation, Happening, Procedure, Reminders, What};
pub use model::child::{Child, ChildEnd, Parent};
pub use model::error::{ActionError, Class, Error, Refusal, TimeLimit, TimedOut};
pub use model::event::{Bell, Effect, Event, Order, Ticket, Tried};
pub use model::execution::{
    Authorisation, Authoriser, Execution, Failure, Fate, Mark, Phase, Reason, Slot, Unwinding,
};
pub use model::plan::{Plan, PlanDigest};
pub use model::retry::RetryPolicy;
pub use model::step::{Act, Approval, Branch, Choose, Commitment, Edge, Outcome, Rule, Step, Wait};
pub use model::view::{Decided, Entity, Undecided, View, decide};
pub use operations::migration::{Generation, Migration, MigrationAnswer};
pub use operations::pending_work::{Awaited, Pending};
pub use operations::proposal::{Preview, Proposal, Taken, command_name};
pub use operations::retention::{Expired, Expiring, Keep};
pub use runtime::attempts::perform::{Bend, Tap};
pub use runtime::clock::{Clock, ManualClock, Stopwatch, SystemClock};
pub use runtime::engine::{Engine, Options, Started, Unsound};
pub use runtime::erased_workflow::Shown;
pub use runtime::metrics::Metrics;
pub use runtime::request::Request;
pub use schedules::{
    Backfill, CatchUp, Exclusion, Firing, Fold, Gap, Kept, MOST_BUFFERED, Occurrence, OccurrenceFate, Origin,
    Overlap, Paused, Schedule, ScheduleError, Standing, Starter, Target, Times, Triggered, Unstarted,
};
pub use search::{
    CONDITIONS_LIMIT, FILTER_LIMIT, Field, Misread, nearest, parse as parse_filter,
    parse_knowing as parse_filter_knowing,
};

pub use model::workflow::{StateSet, Subject, UpgradeError, Workflow};
