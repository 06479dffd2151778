//! The core workflows from end to end: asked for over HTTP as staff and tenants do, on clusters that are real.
//!
//! What the file of targets does not name is simulated, within the server.

mod deaths;
mod destroyed;
pub(crate) mod house;
mod kubernetes;
mod planted;
mod slurm;
mod unrest;
