//! The object store: the bucket of a tenant.

use crate::platform::{CallMetadata, FoundObject};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// What a bucket is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// Where its objects stay.
    pub region: String,
    /// The key that encrypts them.
    pub key: String,
    /// Whether overwritten objects are kept.
    pub versioned: bool,
}

/// An object store, as far as actions need it.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of epochs and classes. It need not know
/// idempotency keys: these actions look before they repeat.
#[async_trait]
pub trait Objects: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Makes the bucket, tagged with tenant and step; an equal one of the tenant is left as it is.
    async fn create(
        &self,
        bucket: &Bucket,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// The bucket as it stands, if there is one.
    async fn read(
        &self,
        region: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, Bucket)>, ActionError>;

    /// Deletes the bucket; one with objects is kept and refused with `bucket.not_empty`.
    async fn delete(
        &self,
        region: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;
}
