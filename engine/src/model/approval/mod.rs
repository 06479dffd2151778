//! An approval as data: seats, votes, delegations, the procedure, and the ballot that counts.
//!
//! Called by the core, which casts votes and moves the timetable on. Invariant: a ballot is granted only when every seat is taken by a different person.

pub(crate) mod ballot;
pub(crate) mod delegation;
pub(crate) mod procedure;
