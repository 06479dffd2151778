//! Documents as a decision reads them, and the documents that the engine writes.
//!
//! Used by ledger actions and by the worker. Invariant: a view has no access to the store; it reports the documents
//! that it lacks.

pub(crate) mod collection;
pub(crate) mod document_cache;
pub(crate) mod notification;
pub(crate) mod parse;
pub(crate) mod view;
