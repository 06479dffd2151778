//! End-to-end tests of Tenure on real servers.

mod clusters;
mod console;
mod drives;
mod gpu;
mod keys;
mod kubernetes;
mod objects;
mod observability;
mod packages;
mod slurm;
mod systems;
mod whole;
