//! The documents of an approval: the open and the closed record, notifications, and reviews of break-glass.
//!
//! Called by `runtime` when an event becomes a commit. Invariant: each document is written by the commit of its
//! event, under an id that is derived from the event.

pub(crate) mod notices;
pub(crate) mod record;
pub(crate) mod review;
pub(crate) mod writes;
