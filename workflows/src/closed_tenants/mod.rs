//! Checks of closed tenants: finds resources that exist although certificates state their destruction.
//!
//! Called by a sweep, and before the offboarding of remains. Invariant: a check changes no external system and uses the credentials of both the
//! verifier and the platform. A source without an answer counts as unknown, never as empty.

mod certified;
mod look;
mod matters;
mod sources;
#[cfg(test)]
mod tests;

pub use look::{LookReport, look_at};
pub use matters::{ClosedConcern, ClosedTenantMatter, all_looks, closed_tenant_matters};
pub use sources::SilentSources;
