//! Tenure against the real things.

mod drives;
mod gpu;
mod keys;
mod kubernetes;
mod objects;
mod slurm;
mod whole;
