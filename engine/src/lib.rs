//! Durable, approvable, compensable state machines.
//!
//! A [`Workflow`] is a struct, an enum of states and one pure function from state to [`Step`]. The engine persists
//! each run of it (an [`Execution`]), runs its actions on a platform, asks people for approval, waits, retries and
//! compensates, and survives crashes. Every decision is in the pure [`transition`]; the [`Engine`] leases, performs,
//! commits and sleeps. `examples/` has short workflows, from `hello.rs` on. This crate knows no tenant.

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

pub use crate::core::transition::{Transition, transition};
pub use crate::core::unwind::pending_undos;
pub use approvals::record::ApprovalRecord;
pub use approvals::review::{Review, ReviewDone, Reviewed};
pub use authoring::act::{act, act_each, all, branch};
pub use authoring::acting::ActBuilder;
pub use authoring::approval::approval;
pub use authoring::check::check;
pub use authoring::choose::{end, when};
pub use authoring::diagram::diagram;
pub use authoring::wait::{await_signal, wait};
pub use batch::{
    BATCH_CAP, BATCH_LIMIT, BATCH_RATE, BATCH_RATE_LIMIT, Batch, BatchError, BatchItem, BatchPreview,
    BatchRequest, BatchResult, BatchVerb, Batches,
};
pub use children::build::{Children, children};
pub use documents::audit_context::{AuditContext, with_actor, with_reason};
pub use documents::preconditions::{Precondition, with_precondition};
pub use limits::{
    Breaker, BreakerRule, BreakerState, Deferral, KeyClosure, Limit, LimitError, Limiter, Permit, Rate,
};
pub use model::action_error::{ActionError, Class, TimeLimit, TimedOut};
pub use model::approval::ballot::Ballot;
pub use model::approval::delegation::VoteDelegation;
pub use model::approval::procedure::{
    ApprovalChange, ApprovalHistoryEntry, BreakGlass, Escalation, Procedure, Reminders,
};
pub use model::approval::removed_user::RemovedUser;
pub use model::approval::ruling::Ruling;
pub use model::approval::separation::{
    Claim, CredentialAct, CredentialRecords, Provenance, Separation, Tie, TieKind, find_tie, find_tie_between,
};
pub use model::approval::vote::{Person, Seat, Verdict, Vote};
pub use model::authorisation::{Authorisation, Authoriser};
pub use model::definition::action::{
    Action, BoxFuture, Call, DAY, HOUR, LedgerAction, MINUTE, Probe, Repeat, ResultSource, SECOND,
    WhilePending,
};
pub use model::definition::child::{Child, ChildEnd, Parent};
pub use model::definition::diagram::{Diagram, DiagramEdge, DiagramState};
pub use model::definition::erased_action::{
    ActuatorMarker, ErasedAction, IntoErasedAction, LedgerMarker, StepAction,
};
pub use model::definition::flaw::Flaw;
pub use model::definition::made_repair::MadeRepair;
pub use model::definition::step::{Act, Approval, Branch, Choose, Commitment, Step, Wait};
pub use model::definition::workflow::{StateSet, Subject, UpgradeError, Workflow};
pub use model::documents::notification::Notification;
pub use model::documents::view::{Entity, Retention, Undecided, View};
pub use model::erased_workflow::ExecutionView;
pub use model::error::Error;
pub use model::execution::event::{AttemptRecord, Attribution, Effect, Event, TaskRef, TimetableAlarm};
pub use model::execution::phase::{Failure, Phase, Reason, Unwinding};
pub use model::execution::repair::{Repair, RepairKind};
pub use model::execution::state::{Execution, Slot};
pub use model::execution::trail::{TrailEntry, UndoState};
pub use model::outcome::{Edge, Outcome, Rule};
pub use model::plan::{Plan, PlanDigest};
pub use model::refusal::Refusal;
pub use model::retry::RetryPolicy;
pub use operations::limits::{KeyStatus, WaitingAttempt};
pub use operations::migration::{Migration, MigrationAnswer, SchemaUsage};
pub use operations::pending_work::{PendingTask, PendingWork};
pub use operations::proposal::{CommandPreview, CommandResult, Proposal, command_name};
pub use operations::retention::{ExpiredExecution, ExpiryBatch, RetentionPolicy};
pub use runtime::clock::shared::SharedClock;
pub use runtime::clock::{Clock, MAX_SKEW, ManualClock, Stopwatch, SystemClock};
pub use runtime::clock_guard::{ClockJump, LARGEST_JUMP, LONGEST_DOWNTIME};
pub use runtime::engine::Engine;
pub use runtime::fault_hook::{FaultInjector, InjectedFault};
pub use runtime::ledger::{Decided, decide};
pub use runtime::metrics::Metrics;
pub use runtime::options::Options;
pub use runtime::registration::InvalidWorkflow;
pub use runtime::request::Request;
pub use runtime::start::Started;
pub use schedules::{
    BACKFILL_MOST, BACKFILL_USUAL, Backfill, BackfillSpan, CatchUp, CatchingUp, Exclusion, Failing, Firing,
    Fold, Gap, MAX_BUFFERED, Occurrence, OccurrenceFate, Origin, Overlap, Paused, Schedule, ScheduleError,
    ScheduleRun, ScheduleStatus, SetBack, StartFailure, Starter, Target, Times, TriggerRequest,
};
pub use search::{
    CONDITIONS_LIMIT, FILTER_LIMIT, Field, FilterError, leftovers, nearest, parse as parse_filter,
    parse_knowing as parse_filter_knowing,
};
