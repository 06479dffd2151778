//! One attempt of an action: it acquires its limits, runs under its lease, and releases them.
//!
//! Called by the worker. Invariant: a permit is released by its attempt, or lapses with the lease of the attempt.

pub(crate) mod acquire;
pub(crate) mod limiter_update;
pub(crate) mod perform;
pub(crate) mod release;
pub(crate) mod rules;
pub(crate) mod within_limits;
