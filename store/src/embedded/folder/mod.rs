//! The files of a store folder: lock, identity, delivery log and acknowledged watermark; and the free space of its disk.
//!
//! Used on opening and by the monitor. Invariant: one process at a time works in a folder.

pub(crate) mod boot;
pub(crate) mod deliveries;
mod error;
pub(crate) mod identity;
pub(crate) mod lock;
pub(crate) mod space;
pub(crate) mod watermark;

pub(crate) use error::failed;
