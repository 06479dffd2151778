//! The simulated world: Kubernetes-, Slurm-, GPU-, key-store-, object-store- and identity-shaped.
//!
//! Behind one small trait, [`World`], so that it can live in this process ([`LocalWorld`]) or in one of its own
//! ([`RemoteWorld`]). It is comparable by snapshot, counts the effects of every idempotency key, can be scripted to
//! fail in every way that a real target fails, and keeps its own record of what it accepted, from which
//! [`LocalWorld::violations`] is computed without trusting what accepted it.

mod capabilities;
mod protocol;
mod signer;
mod state;
pub(crate) mod world;

pub use crate::backends::simulated::capabilities::Simulated;
pub use crate::backends::simulated::protocol::{Request, Response, System, Verb, World};
pub use crate::backends::simulated::state::ownership_audit::Owner;
pub use crate::backends::simulated::world::faults::{Fault, Random, Script, What};
pub use crate::backends::simulated::world::local::LocalWorld;
pub use crate::backends::simulated::world::remote::RemoteWorld;
pub(crate) use signer::simulated_signer;
pub use state::Refused;
