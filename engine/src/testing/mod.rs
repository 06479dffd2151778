//! Verification of workflows: every action with every fault, a crash at every commit, a cancel between any two
//! commits, every answer to every approval, and the coverage of edges.
//!
//! Call [`verify`]. A workflow passes if each run ends as required: unchanged after a crash or a repetition; with
//! everything undone after a failure before the pivot; parked and then completed by a retry after a failure past it.
//! [`Report::violations`] names the action at fault.

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
