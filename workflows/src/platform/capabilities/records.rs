//! The keys of the engine's own records, where they are sealed.

use async_trait::async_trait;
use engine::ActionError;
use std::fmt::Debug;

/// What keeps the engine's own records, as far as a tenant that has left is concerned.
#[async_trait]
pub trait Records: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Destroys the record key of a tenant, once the audit has taken over all that was journalled under it, and names every
    /// key that was destroyed so far; none where records are not sealed. Safe to repeat.
    async fn destroy_key(&self, tenant: &str) -> Result<Vec<String>, ActionError>;
}
