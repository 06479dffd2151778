//! Documents as a decision sees them, and the documents that the engine itself writes.
//!
//! Used by ledger actions and by the shell. Invariant: a view knows no store; it names the documents that it lacks.

pub(crate) mod collection;
pub(crate) mod document_cache;
pub(crate) mod notification;
pub(crate) mod parse;
pub(crate) mod view;
