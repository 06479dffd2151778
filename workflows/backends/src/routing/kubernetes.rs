//! Routes Kubernetes calls to the API server of each cluster.

use super::ByPlace;
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::{
    CallMetadata, FieldSwap, FoundObject, IsolationKind, Kubernetes, Manifest, ObjectRef, Ownership,
    ProbeFinding,
};

impl ByPlace<dyn Kubernetes> {
    /// Serves these clusters by their own backends and all others by `rest`.
    #[must_use]
    pub fn over(
        clusters: BTreeMap<String, Arc<dyn Kubernetes>>,
        rest: Arc<dyn Kubernetes>,
    ) -> Arc<dyn Kubernetes> {
        if clusters.is_empty() { rest } else { Arc::new(Self::new(clusters, rest, |one| one.backend())) }
    }
}

#[async_trait]
impl Kubernetes for ByPlace<dyn Kubernetes> {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn apply(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.at(&manifest.place.cluster).apply(manifest, stamp).await
    }

    async fn patch(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.at(&manifest.place.cluster).patch(manifest, stamp).await
    }

    async fn compare_and_set(
        &self,
        place: &ObjectRef,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        self.at(&place.cluster).compare_and_set(place, tenant, swap, stamp).await
    }

    async fn read(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        self.at(&place.cluster).read(place, stamp).await
    }

    async fn wait_until_gone(
        &self,
        place: &ObjectRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        self.at(&place.cluster).wait_until_gone(place, uid, stamp).await
    }

    async fn deletion_blocker(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<Option<String>, ActionError> {
        self.at(&place.cluster).deletion_blocker(place, stamp).await
    }

    async fn delete(&self, place: &ObjectRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.at(&place.cluster).delete(place, uid, stamp).await
    }

    async fn take_node(
        &self,
        cluster: &str,
        node: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.at(cluster).take_node(cluster, node, to, stamp).await
    }

    async fn cordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.at(cluster).cordon_node(cluster, node, of, stamp).await
    }

    async fn uncordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.at(cluster).uncordon_node(cluster, node, of, by, stamp).await
    }

    async fn return_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.at(cluster).return_node(cluster, node, of, stamp).await
    }

    async fn probe_isolation(
        &self,
        cluster: &str,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        self.at(cluster).probe_isolation(cluster, tenant, workspace, kind, stamp).await
    }
}
