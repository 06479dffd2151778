//! One execution of a workflow: its state, its trail, its events, and the messages that it sends.
//!
//! Only the core changes it. Invariant: field names are persisted.

pub(crate) mod directive;
pub(crate) mod event;
pub(crate) mod message;
pub(crate) mod phase;
pub(crate) mod repair;
pub(crate) mod state;
pub(crate) mod trail;
