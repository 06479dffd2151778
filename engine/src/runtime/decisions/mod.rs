//! Decisions on the same document queue in the order of arrival and are committed together.
//!
//! [`Engine::transact`](crate::Engine::transact) is the one caller that decides here; the worker takes a turn for its own commits.
//! Invariant: decisions of one queue never send each other back; only a commit from outside of the queue does.

pub(crate) mod batch;
mod in_turn;
pub(crate) mod queues;
pub(crate) mod reads;
pub(crate) mod turn;
