//! Plain data of the engine: workflows, steps, actions, executions, events, errors, and the view of documents.
//!
//! Used by every other folder. Invariant: nothing here reads a clock, a store or the network, and nothing imports
//! another folder.

pub(crate) mod action_error;
pub(crate) mod approval;
pub(crate) mod authorisation;
pub(crate) mod definition;
pub(crate) mod documents;
pub(crate) mod erased_workflow;
pub(crate) mod error;
pub(crate) mod execution;
pub(crate) mod input;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod refusal;
pub(crate) mod retry;
