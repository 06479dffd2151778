//! A real Slurm cluster: accounts, limits, jobs, nodes, offboarding, and the oddities of Slurm.

mod accounts;
pub(crate) mod cluster;
mod conformance;
mod failures;
mod kept;
mod leaving;
mod nodes;
mod oddities;
mod reclaim;
