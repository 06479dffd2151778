//! Proof that a workflow survives: every action made to go wrong in every way, a crash at every commit, a cancel
//! between any two, every question answered every way; and a count of the edges all of that has taken.
//!
//! One call does it: [`verify`]. A workflow passes when each run ends as it must: as if nothing had happened after a
//! crash or a repetition; with the world as it was after a failure before the pivot; parked, and finished by a retry,
//! after one behind it. [`Report::violations`] names the action at fault.

mod adapt_step;
pub(crate) mod crash_store;
mod fault_injector;
mod fault_sweep;
mod report;
mod run;
mod scenario;
pub(crate) mod script;
mod stage;

pub use crash_store::CrashStore;
pub use fault_sweep::{verify, verify_with_child, verify_with_children};
pub use report::Report;
pub use scenario::{ConcurrentChange, Fault, Scenario, World};
pub use script::CrashPoint;
