//! The simulated world: Kubernetes-, Slurm-, GPU-, key-store-, object-store- and identity-shaped.
//!
//! Behind one small trait, [`World`], so that it can live in this process ([`LocalWorld`]) or in one of its own
//! ([`RemoteWorld`]). It is comparable by snapshot, counts the effects of every idempotency key, can be scripted to
//! fail in every way that a real target fails, and keeps its own record of what it accepted, from which
//! [`LocalWorld::violations`] is computed without trusting what accepted it.

mod capabilities;
mod platform;
mod protocol;
mod signer;
mod state;
mod world;

pub use capabilities::Simulated;
pub use platform::{local_world, simulated_platform};
pub use protocol::{Request, Response, System, Verb, World};
pub use state::Refused;
pub use state::ownership_audit::Owner;
pub use world::faults::{Fault, FaultKind, Random, Script};
pub use world::local::LocalWorld;
pub use world::remote::RemoteWorld;

#[cfg(test)]
mod tests;
