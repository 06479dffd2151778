//! Adapts a typed workflow to stored records: decodes a record, calls the core, and encodes what is to be committed.
//!
//! Called by the engine through the erased workflow. Invariant: a panic in the code of a workflow makes that execution
//! unreadable, and no other.

pub(crate) mod abridge;
pub(crate) mod advance;
pub(crate) mod alarms;
pub(crate) mod decode;
pub(crate) mod execution_cache;
pub(crate) mod history;
pub(crate) mod typed_workflow;
