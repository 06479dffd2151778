//! Queues for decisions on the same document: in order of arrival, committed together.
//!
//! [`Engine::transact`](crate::Engine::transact) is the only caller that decides here; the worker takes a turn for
//! its own commits. Invariant: decisions of one queue never conflict with each other, only with commits from outside
//! the queue.

pub(crate) mod batch;
mod in_turn;
pub(crate) mod queues;
pub(crate) mod reads;
pub(crate) mod turn;
