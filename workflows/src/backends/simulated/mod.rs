//! The simulated world: Kubernetes-, Slurm-, GPU-, key-store-, object-store- and identity-shaped.
//!
//! Behind one small trait, [`World`], so that it can live in this process ([`LocalWorld`]) or in one of its own
//! ([`RemoteWorld`]). It is comparable by snapshot, counts the effects of every idempotency key, can be scripted to
//! fail in every way that a real target fails, and keeps its own record of what it accepted, from which
//! [`LocalWorld::violations`] is computed without trusting what accepted it.

mod checks;
mod estate;
mod faults;
mod hooks;
mod journal;
mod kubernetes;
mod local;
mod machines;
mod nodes;
mod objects;
mod oracle;
mod recovery;
mod remote;
mod services;
mod signer;
mod state;
mod wire;
mod workloads;

pub use faults::{Fault, Random, Script, What};
pub use local::LocalWorld;
pub use oracle::Owner;
pub use remote::RemoteWorld;
pub use services::Simulated;
pub(crate) use signer::simulated_signer;
pub use state::Refused;
pub use wire::{Request, Response, System, Verb, World};
