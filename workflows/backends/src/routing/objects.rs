//! Routes object store calls to the backend of each region.

use super::ByPlace;
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::{Bucket, CallMetadata, FoundObject, Objects};

impl ByPlace<dyn Objects> {
    /// Serves these regions by their own backends and all others by `rest`.
    #[must_use]
    pub fn over(regions: BTreeMap<String, Arc<dyn Objects>>, rest: Arc<dyn Objects>) -> Arc<dyn Objects> {
        if regions.is_empty() { rest } else { Arc::new(Self::new(regions, rest, |one| one.backend())) }
    }
}

#[async_trait]
impl Objects for ByPlace<dyn Objects> {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn create(
        &self,
        bucket: &Bucket,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        self.at(&bucket.region).create(bucket, tenant, stamp).await
    }

    async fn read(
        &self,
        region: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, Bucket)>, ActionError> {
        self.at(region).read(region, name, stamp).await
    }

    async fn delete(
        &self,
        region: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(region).delete(region, name, found, stamp).await
    }
}
