//! Routes batch scheduler calls to the backend of each cluster.

use super::ByPlace;
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::{Associations, CallMetadata, FieldSwap, FoundObject, Slurm};

impl ByPlace<dyn Slurm> {
    /// Serves these clusters by their own backends and all others by `rest`.
    #[must_use]
    pub fn over(clusters: BTreeMap<String, Arc<dyn Slurm>>, rest: Arc<dyn Slurm>) -> Arc<dyn Slurm> {
        if clusters.is_empty() { rest } else { Arc::new(Self::new(clusters, rest, |one| one.backend())) }
    }
}

#[async_trait]
impl Slurm for ByPlace<dyn Slurm> {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn create_account(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        associations: &Associations,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        self.at(cluster).create_account(cluster, name, tenant, associations, stamp).await
    }

    async fn account(
        &self,
        cluster: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        self.at(cluster).account(cluster, name, stamp).await
    }

    async fn compare_and_set(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        self.at(cluster).compare_and_set(cluster, name, tenant, swap, stamp).await
    }

    async fn delete_account(
        &self,
        cluster: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(cluster).delete_account(cluster, name, found, stamp).await
    }
}
