//! Plain data of the engine: workflows, steps, actions, executions, events, errors, and the view of documents.
//!
//! Used by every other folder. Invariant: nothing here reads a clock, a store or the network, and nothing imports another folder.

pub(crate) mod action;
pub(crate) mod approval;
pub(crate) mod child;
pub(crate) mod document_cache;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod execution;
pub(crate) mod input;
pub(crate) mod message;
pub(crate) mod plan;
pub(crate) mod retry;
pub(crate) mod step;
pub(crate) mod view;
pub(crate) mod workflow;
