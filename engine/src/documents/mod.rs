//! What binds a change of documents from outside of executions: its preconditions, and who asked for it.
//!
//! Set around a request by the caller, read by `Engine::transact`. Invariant: both take part in the commit that changes
//! the documents.

pub(crate) mod audit_context;
pub(crate) mod preconditions;
