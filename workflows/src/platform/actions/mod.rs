//! The actions that workflows use, one file for each capability.

pub(crate) mod gpus;
pub(crate) mod hooks;
pub(crate) mod identity;
pub(crate) mod keys;
pub(crate) mod kubernetes;
pub(crate) mod limits;
pub(crate) mod machines;
pub(crate) mod objects;
pub(crate) mod offboarding;
pub(crate) mod records;
pub(crate) mod removal;
pub(crate) mod slurm;
pub(crate) mod survey;
pub(crate) mod workload_gpus;
pub(crate) mod workloads;
