//! Tenure against the real things.

mod console;
mod drives;
mod gpu;
mod keys;
mod kubernetes;
mod objects;
mod slurm;
mod whole;
