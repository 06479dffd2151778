//! Adapts a typed workflow to stored records: decodes a record, calls the core, and encodes the commit.
//!
//! Called by the engine through the erased workflow. Invariant: a panic in the code of a workflow makes only that
//! execution unreadable.

pub(crate) mod abridge;
pub(crate) mod advance;
pub(crate) mod alarms;
pub(crate) mod decode;
pub(crate) mod execution_cache;
pub(crate) mod history;
pub(crate) mod typed_workflow;
