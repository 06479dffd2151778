//! The identity provider: a tenant's groups and credentials.

use crate::platform::{CallMetadata, FoundObject};
use async_trait::async_trait;
use engine::ActionError;
use std::fmt::Debug;

/// An identity provider, as far as actions need it.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of keys, epochs and classes, and that no
/// secret ever passes this trait.
#[async_trait]
pub trait Identity: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Makes the tenant's groups. Equal ones are left as they are, another's are refused with `object.foreign`.
    async fn create(
        &self,
        name: &str,
        tenant: &str,
        groups: &[String],
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// The tenant's groups as they stand, if there are any.
    async fn read(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError>;

    /// Deletes the tenant's groups.
    async fn delete(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Makes credentials and puts them where the tenant can fetch them once. Those of an earlier attempt stay.
    async fn publish(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// The published credentials' mark, if there are any: where they are, never what.
    async fn published(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError>;

    /// Makes the published credentials useless.
    async fn revoke(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError>;
}
