//! The documents that an approval leaves: the open and the closed record, notifications, and reviews of break-glass
//! use.
//!
//! Called by `runtime` when an event is turned into a commit. Invariant: each document is written by the commit of the
//! event that it describes, under an id that follows from the event.

pub(crate) mod notices;
pub(crate) mod record;
pub(crate) mod review;
pub(crate) mod writes;
