//! Servers that tests start for Tenure: PostgreSQL, the simulated platform, and fakes of Vault and an identity provider.

pub mod identity;
pub mod postgres;
pub mod vault;
pub mod world;
