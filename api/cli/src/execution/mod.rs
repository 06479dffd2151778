//! Shared parts of commands on executions: start, wait, status.

pub(crate) mod act;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod wait;
