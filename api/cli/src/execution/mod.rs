//! Executions as commands handle them: start one, wait for it, say how it ended.

pub(crate) mod act;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod wait;
