//! The keys that encrypt the engine's own records, where encryption at rest is on.

use async_trait::async_trait;
use engine::ActionError;
use std::fmt::Debug;

/// The store of the engine's own records, for the offboarding of a tenant.
#[async_trait]
pub trait Records: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Destroys the record key of a tenant, once the audit has copied all entries that the key encrypts. Returns the names of all keys destroyed so
    /// far, or none without encryption at rest. Safe to repeat.
    async fn destroy_key(&self, tenant: &str) -> Result<Vec<String>, ActionError>;
}
