//! Tests of the engine alone.

mod action_names;
mod approval_records;
mod approvals;
mod ballots;
mod breaker;
mod contention;
mod decisions;
mod expiry;
mod latency;
mod leftovers;
mod limiter;
mod limits;
mod maintenance;
mod metrics;
mod one_approval;
mod one_step;
mod permits;
mod plan_edits;
mod protection;
mod random;
mod refused_commits;
mod separation;
mod set_limits;
mod signals;
mod timeouts;
mod waiters;
