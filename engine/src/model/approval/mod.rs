//! An approval as data: seats, votes, delegations, the procedure, and the ballot that counts.
//!
//! The core casts votes and applies the timetable. Invariant: a ballot is granted only if a different person fills
//! each place, or by break-glass.

pub(crate) mod ballot;
pub(crate) mod delegation;
pub(crate) mod procedure;
pub(crate) mod removed_user;
pub(crate) mod ruling;
pub(crate) mod separation;
pub(crate) mod timetable;
pub(crate) mod vote;
