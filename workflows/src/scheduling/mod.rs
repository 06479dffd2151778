//! Shares the GPUs of a tenant among its workspaces: admission, loans and the planner of reclaims.

pub mod admission;
pub(crate) mod loans;
pub mod planner;
