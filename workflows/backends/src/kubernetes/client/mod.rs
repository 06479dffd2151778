//! Requests to the API server: what is sent, what an answer means, lists, watches, and where each kind is served.
//!
//! Called by everything in this backend. Invariant: every request ends by the deadline of its call.

pub(super) mod discovery;
pub(super) mod error;
pub(super) mod list;
pub(super) mod request;
pub(super) mod watch;

/// How often a write is tried against an object that changes under it, and a list that runs out.
pub(super) const TRIES: u32 = 5;
