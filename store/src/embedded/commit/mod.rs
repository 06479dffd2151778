//! The commit path: checks a group of commits, builds one frame, writes and syncs it, and answers.
//!
//! Called by [`Embedded::commit`](crate::Embedded). Invariant: a commit is acknowledged and visible only after its frame is synced.

pub(crate) mod apply;
pub(crate) mod writer;
