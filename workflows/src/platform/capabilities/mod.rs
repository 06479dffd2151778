//! The traits that backends implement, one file per capability, with the values they exchange.
//!
//! Invariant: a capability knows no action, no policy and no ledger.

pub(crate) mod gpu_placement;
pub(crate) mod gpus;
pub(crate) mod hooks;
pub(crate) mod identity;
pub(crate) mod keys;
pub(crate) mod kubernetes;
pub(crate) mod machines;
pub(crate) mod objects;
pub(crate) mod records;
pub(crate) mod slurm;
pub(crate) mod tenant_resources;
pub(crate) mod workloads;
