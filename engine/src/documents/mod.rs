//! Preconditions and the author of document changes outside of executions.
//!
//! Set around a request by the caller, read by `Engine::transact`. Invariant: both take part in the commit that changes
//! the documents.

pub(crate) mod audit_context;
pub(crate) mod preconditions;
