//! The object store: the bucket of a tenant.

use crate::platform::{CallMetadata, FoundObject};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The properties of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// The region of its objects.
    pub region: String,
    /// The name of the key that encrypts them.
    pub key: String,
    /// True if overwritten objects are kept as versions.
    pub versioned: bool,
}

/// The operations on an object store that actions need.
///
/// Epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes). Idempotency keys are optional: these actions
/// read before they repeat.
#[async_trait]
pub trait Objects: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Creates the bucket with tags for tenant and step. An equal bucket of the tenant is left unchanged.
    async fn create(
        &self,
        bucket: &Bucket,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// Returns the bucket, if it exists.
    async fn read(
        &self,
        region: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, Bucket)>, ActionError>;

    /// Deletes the bucket. Fails with `bucket.not_empty` if it has objects.
    async fn delete(
        &self,
        region: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;
}
