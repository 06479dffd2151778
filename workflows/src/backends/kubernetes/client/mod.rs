//! Requests to the API server: what is sent, what an answer means, lists, watches, and where each kind is served.
//!
//! Called by everything in this backend. Invariant: every request ends by the deadline of its call.

pub(crate) mod discovery;
pub(crate) mod error;
pub(crate) mod list;
pub(crate) mod request;
pub(crate) mod watch;
