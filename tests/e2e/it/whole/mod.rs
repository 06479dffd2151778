//! The core workflows from end to end: requested over HTTP as staff and tenants do, on real clusters.
//!
//! Clusters that the target file does not name are simulated within the server.

mod deaths;
mod destroyed;
pub(crate) mod house;
mod kubernetes;
mod planted;
mod slurm;
mod unrest;
