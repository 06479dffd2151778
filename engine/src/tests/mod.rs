//! Tests of the engine alone.

mod approvals;
mod ballots;
mod breaker;
mod counted;
mod crowd;
mod gates;
mod held;
mod limits;
mod limits_set;
mod lines;
mod names;
mod notices;
mod pace;
mod question;
mod random;
mod shaping;
mod timeouts;
mod toil;
