//! Requests to the API server: sending, errors, lists, watches, and discovery of versions.
//!
//! Used by all modules of this backend. Invariant: every request ends by the deadline of its call.

pub(super) mod discovery;
pub(super) mod error;
pub(super) mod list;
pub(super) mod request;
pub(super) mod watch;

/// The number of attempts for a write to an object that changes concurrently, and for an expired list.
pub(super) const TRIES: u32 = 5;
