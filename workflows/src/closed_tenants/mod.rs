//! Looks at closed tenants: whether anything of them is there, although certificates say that it is destroyed.
//!
//! Called by a sweep, and before the offboarding of what remains. Invariant: a look changes nothing outside, asks with the credentials
//! of the verifier and with the platform's own, and takes a source without an answer for unknown, never for empty.

mod certified;
mod look;
mod matters;
mod sources;
#[cfg(test)]
mod tests;

pub use look::{LookReport, look_at};
pub use matters::{ClosedConcern, ClosedTenantMatter, all_looks, closed_tenant_matters};
pub use sources::SilentSources;
