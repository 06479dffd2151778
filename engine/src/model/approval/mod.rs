//! An approval as data: seats, votes, delegations, the procedure, and the ballot that counts.
//!
//! Called by the core, which casts votes and moves the timetable on. Invariant: a ballot is granted only when every
//! seat is taken by a different person, or by one who may decide alone.

pub(crate) mod ballot;
pub(crate) mod delegation;
pub(crate) mod procedure;
pub(crate) mod removed_user;
pub(crate) mod ruling;
pub(crate) mod separation;
pub(crate) mod timetable;
pub(crate) mod vote;
