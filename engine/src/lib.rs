//! Durable, approvable, compensable state machines.
//!
//! A [`Workflow`] is a struct, an enum of states and one pure function from state to [`Step`]. The engine persists each
//! run of it (an [`Execution`]), performs its actions on a platform, asks people, waits, retries, and turns back; whatever
//! happens to the process. Everything that decides is in the pure [`transition`]; the [`Engine`] leases, performs,
//! commits and sleeps. `examples/hello.rs` is a whole workflow. This crate knows no tenant.

mod action;
mod approval;
mod attempt;
mod attributes;
mod awaiting;
mod batch;
mod behalf;
mod build;
mod build_children;
mod case;
mod check;
mod child;
mod clock;
mod command;
mod decoded;
mod diagram;
mod directive;
mod due;
mod elsewhere;
mod engine;
mod error;
mod event;
mod execution;
mod given;
mod held;
mod kin;
mod ledger;
mod limited;
mod limits;
mod machine;
mod mandate;
mod message;
mod metrics;
mod notification;
mod operate;
mod parsed;
mod people;
mod plan;
mod procedure;
mod proposal;
mod query;
mod relay;
mod repair;
mod request;
mod retention;
mod retry;
mod review;
mod schedule;
mod search;
mod settle;
mod step;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
mod transition;
mod unwind;
mod versions;
mod worker;
mod workflow;

pub use action::{
    Action, Actuator, BoxFuture, Call, DAY, Deed, Doing, DoneTo, HOUR, Ledger, LedgerAction, MINUTE, Probe,
    Repeat, SECOND,
};
pub use approval::{Ballot, Person, Ruling, Seat, Verdict, Vote};
pub use attempt::{Bend, Tap};
pub use batch::{
    BATCH_CAP, BATCH_LIMIT, BATCH_RATE, BATCH_RATE_LIMIT, Batch, BatchAsk, BatchError, BatchItem,
    BatchPreview, BatchResult, BatchVerb, Batches,
};
pub use behalf::{Behalf, because, on_behalf};
pub use build::{Acting, act, act_each, all, approval, await_signal, branch, end, wait, when};
pub use build_children::{Children, children};
pub use case::ApprovalCase;
pub use check::{Flaw, check};
pub use child::{Child, ChildEnd, Parent};
pub use clock::{Clock, ManualClock, Stopwatch, SystemClock};
pub use diagram::{Diagram, DiagramEdge, DiagramState, diagram};
pub use engine::{Engine, Options, Started, Unsound};
pub use error::{ActionError, Class, Error, Refusal, TimeLimit, TimedOut};
pub use event::{Bell, Effect, Event, Order, Ticket, Tried};
pub use execution::{
    Authorisation, Authoriser, Execution, Failure, Fate, Mark, Phase, Reason, Slot, Unwinding,
};
pub use held::{Awaited, Pending};
pub use ledger::{Decided, Entity, Undecided, View, decide};
pub use limits::{
    Barred, Breaker, BreakerRule, BreakerState, Closed, Gate, KeyStatus, Limit, LimitError, Place, Rate,
    Waiting, WhilePending,
};
pub use machine::Shown;
pub use mandate::Mandate;
pub use metrics::Metrics;
pub use notification::Notification;
pub use plan::{Plan, PlanDigest};
pub use procedure::{BreakGlass, Escalation, Happening, Procedure, Reminders, What};
pub use proposal::{Preview, Proposal, Taken, command_name};
pub use repair::{Repair, RepairKind};
pub use request::Request;
pub use retention::{Expired, Expiring, Keep};
pub use retry::RetryPolicy;
pub use review::{Review, ReviewDone, Reviewed};
pub use schedule::{
    Backfill, CatchUp, Exclusion, Firing, Fold, Gap, Kept, MOST_BUFFERED, Occurrence, OccurrenceFate, Origin,
    Overlap, Paused, Schedule, ScheduleError, Standing, Starter, Target, Times, Unstarted,
};
pub use search::{
    CONDITIONS_LIMIT, FILTER_LIMIT, Field, Misread, nearest, parse as parse_filter,
    parse_knowing as parse_filter_knowing,
};
pub use step::{Act, Approval, Branch, Choose, Commitment, Edge, Outcome, Rule, Step, Wait};
pub use transition::{Transition, transition};
pub use unwind::pending_undos;
pub use versions::{Generation, Migration, MigrationAnswer};

pub use workflow::{StateSet, Subject, UpgradeError, Workflow};
