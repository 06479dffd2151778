//! Simulated platforms in this process or behind a URL, stored in a file, with scripted faults.
//!
//! Invariant: a change is in the file before it is answered.

pub(crate) mod faults;
pub(crate) mod local;
pub(crate) mod remote;
pub(crate) mod request_log;
