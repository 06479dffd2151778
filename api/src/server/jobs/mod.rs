//! Background jobs of the server, one file each.
//!
//! Started by [`serve`](super::serve) and stopped through its watch channel. Invariant: a job that fails logs it and tries again; it never ends the server.

pub(crate) mod audit_sealing;
pub(crate) mod batches;
pub(crate) mod change_feed;
pub(crate) mod housekeeping;
pub(crate) mod retention;
pub(crate) mod schedules;
pub(crate) mod simulated_observations;
