//! The identity provider: a tenant's groups and credentials.

use crate::platform::{CallMetadata, FoundObject};
use async_trait::async_trait;
use engine::ActionError;
use std::fmt::Debug;

/// The operations on an identity provider that actions need.
///
/// Keys, epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes). Secrets never pass through this trait.
#[async_trait]
pub trait Identity: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Creates the tenant's groups. Equal groups are left unchanged. Fails with `object.foreign` for groups of another tenant.
    async fn create(
        &self,
        name: &str,
        tenant: &str,
        groups: &[String],
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// Returns the tenant's groups, if they exist.
    async fn read(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError>;

    /// Deletes the tenant's groups.
    async fn delete(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Creates credentials and stores them where the tenant can fetch them once. Credentials of an earlier attempt stay.
    async fn publish(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Returns the mark of the published credentials, if there are any: their place, never their content.
    async fn published(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError>;

    /// Revokes the published credentials.
    async fn revoke(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError>;
}
