//! Routes GPU calls to the backend of each cluster.

use super::ByPlace;
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::{CallMetadata, Diagnosis, DiagnosisLevel, GpuHealth, GpuLayout, Gpus};

impl ByPlace<dyn Gpus> {
    /// Serves these clusters by their own backends and all others by `rest`.
    #[must_use]
    pub fn over(clusters: BTreeMap<String, Arc<dyn Gpus>>, rest: Arc<dyn Gpus>) -> Arc<dyn Gpus> {
        if clusters.is_empty() { rest } else { Arc::new(Self::new(clusters, rest, |one| one.backend())) }
    }
}

#[async_trait]
impl Gpus for ByPlace<dyn Gpus> {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn layout(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuLayout, ActionError> {
        self.at(cluster).layout(cluster, node, stamp).await
    }

    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(cluster).set_layout(cluster, node, profile, stamp).await
    }

    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: DiagnosisLevel,
        stamp: &CallMetadata,
    ) -> Result<Diagnosis, ActionError> {
        self.at(cluster).diagnose(cluster, node, level, stamp).await
    }

    async fn health(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuHealth, ActionError> {
        self.at(cluster).health(cluster, node, stamp).await
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.at(cluster).reset(cluster, node, stamp).await
    }

    async fn reboot(
        &self,
        cluster: &str,
        node: &str,
        boot: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.at(cluster).reboot(cluster, node, boot, stamp).await
    }
}

/// GPUs whose layouts are served by a different backend than all other calls.
#[derive(Debug)]
pub struct LayoutsApart {
    layouts: Arc<dyn Gpus>,
    rest: Arc<dyn Gpus>,
    /// True if `rest` reads the hardware's layout from the driver.
    seen: bool,
    said: &'static str,
}

impl LayoutsApart {
    /// Serves layouts by the first backend and all other GPU calls by `rest`.
    #[must_use]
    pub fn over(layouts: Arc<dyn Gpus>, rest: Arc<dyn Gpus>) -> Self {
        // Lives as long as the process; there is one per cluster.
        let said = String::leak(format!("layouts by {}, otherwise {}", layouts.backend(), rest.backend()));
        Self { layouts, rest, seen: false, said }
    }

    /// Like `over`, but the state of the hardware is read from `rest`, which asks the driver.
    #[must_use]
    pub fn seen_by(layouts: Arc<dyn Gpus>, rest: Arc<dyn Gpus>) -> Self {
        Self { seen: true, ..Self::over(layouts, rest) }
    }
}

#[async_trait]
impl Gpus for LayoutsApart {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn layout(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuLayout, ActionError> {
        let layout = self.layouts.layout(cluster, node, stamp).await?;
        if !self.seen {
            return Ok(layout);
        }
        let hardware = self.rest.layout(cluster, node, stamp).await?.hardware;
        Ok(GpuLayout { hardware, ..layout })
    }

    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.layouts.set_layout(cluster, node, profile, stamp).await
    }

    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: DiagnosisLevel,
        stamp: &CallMetadata,
    ) -> Result<Diagnosis, ActionError> {
        self.rest.diagnose(cluster, node, level, stamp).await
    }

    async fn health(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuHealth, ActionError> {
        self.rest.health(cluster, node, stamp).await
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.rest.reset(cluster, node, stamp).await
    }

    async fn reboot(
        &self,
        cluster: &str,
        node: &str,
        boot: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.rest.reboot(cluster, node, boot, stamp).await
    }
}
