//! What recurs: when, what is started then, and what becomes of every single occurrence.
//!
//! A [`Schedule`] is a document that people set, or is built into a program. [`decide`] is pure: from the definition,
//! where the schedule stands, what of it still runs and the time of day follows the fate of every occurrence, each a
//! document of its own ([`Occurrence`]). The [`Engine`](crate::Engine) commits that together with the start that it
//! asks for, so that of several engines one starts it, once. Told with tables in `docs/schedules.md`.

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
