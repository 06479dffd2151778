//! The pure core: takes one event, returns the next execution and the effects to perform.
//!
//! Called by `runtime` with a freshly loaded execution; the result is committed whole or not at all. Invariant: no
//! clock, no store, no network. The same execution and event always give the same answer.

pub(crate) mod approvals;
pub(crate) mod commands;
pub(crate) mod directive;
pub(crate) mod encoded;
pub(crate) mod known_step;
pub(crate) mod refused_commits;
pub(crate) mod repair;
pub(crate) mod slots;
pub(crate) mod statements;
pub(crate) mod timers;
pub(crate) mod transition;
pub(crate) mod unwind;
