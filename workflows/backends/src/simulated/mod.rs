//! A simulated platform with Kubernetes, Slurm, GPUs, a key store, an object store and an identity provider.
//!
//! The trait [`World`] allows it to run in this process ([`LocalWorld`]) or in another one ([`RemoteWorld`]). Snapshots
//! can be compared, the effects of every idempotency key are counted, and scripts can inject every failure of a real
//! target. Accepted requests are also recorded separately, and [`LocalWorld::violations`] checks the invariants from
//! that record.

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
