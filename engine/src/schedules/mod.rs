//! Schedules: when to start executions, and the fate of every occurrence.
//!
//! A [`Schedule`] is a document that people set, or is built into a program. [`decide`] is pure: it computes the fate
//! of every occurrence from the definition, the status, the open runs and the current time. Each fate is a document
//! ([`Occurrence`]). The [`Engine`](crate::Engine) commits it together with the start, so of several engines exactly
//! one starts it, once. `docs/schedules.md` has the tables.

mod backfill;
mod built_in;
mod catching_up;
mod commands;
mod decide;
mod decision_view;
mod definition;
mod expression;
mod notification;
mod occurrence;
mod occurrence_decision;
mod runner;
mod set_back;
mod starter;
#[cfg(test)]
mod tests;
mod times;

pub use backfill::{BACKFILL_MOST, BACKFILL_USUAL, Span as BackfillSpan};
pub use catching_up::CatchingUp;
pub use definition::{CatchUp, Exclusion, Firing, MAX_BUFFERED, Overlap, Schedule, Target};
pub use occurrence::{
    Backfill, Failing, Fate as OccurrenceFate, Occurrence, Origin, Paused, ScheduleStatus, TriggerRequest,
};
pub use runner::ScheduleRun;
pub use set_back::SetBack;
pub use starter::{StartFailure, Starter};
pub use times::{Fold, Gap, ScheduleError, Times};
