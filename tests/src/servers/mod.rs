//! Servers that tests start for Tenure to talk to: PostgreSQL, the simulated world, and stand-ins for Vault and an identity provider.

pub mod identity;
pub mod postgres;
pub mod vault;
pub mod world;
