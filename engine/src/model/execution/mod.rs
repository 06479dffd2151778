//! One run of a workflow: its state, its trail, the events that it takes, and the messages that it sends.
//!
//! Changed by the core alone. Invariant: field names are persisted.

pub(crate) mod directive;
pub(crate) mod event;
pub(crate) mod message;
pub(crate) mod phase;
pub(crate) mod repair;
pub(crate) mod state;
pub(crate) mod trail;
