//! Tests of the engine alone.

mod approvals;
mod ballots;
mod notices;
mod question;
mod random;
