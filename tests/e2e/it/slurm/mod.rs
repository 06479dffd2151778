//! A real Slurm cluster: accounts, limits, jobs, nodes, what leaves with a tenant, and what Slurm does in odd ways.

mod accounts;
pub(crate) mod cluster;
mod conformance;
mod failures;
mod kept;
mod leaving;
mod nodes;
mod oddities;
mod reclaim;
