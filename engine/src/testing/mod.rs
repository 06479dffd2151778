//! Proof that a workflow survives: every action made to go wrong in every way, a crash at every commit, a cancel between
//! any two, every question answered every way; and a count of the edges all of that has taken.
//!
//! One call does it: [`verify`]. A workflow passes when each run ends as it must: as if nothing had happened after a crash
//! or a repetition; with the world as it was after a failure before the pivot; parked, and finished by a retry, after one
//! behind it. [`Report::complaints`] names the action at fault.

pub(crate) mod cuttable;
mod lift;
mod report;
pub(crate) mod run;
mod scene;
mod sweep;
mod tap;

pub use cuttable::Cuttable;
pub use report::Report;
pub use run::Cut;
pub use scene::{Fault, Meanwhile, Scene, World};
pub use sweep::{verify, verify_with_children};
