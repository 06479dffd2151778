//! Routes calls for machines to the backend of each machine.

use super::ByPlace;
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::{
    CallMetadata, Devices, DriveTechnique, Environment, FilledGpu, Machines, Reset, Samples, SanitiseLog,
    Segment,
};

impl ByPlace<dyn Machines> {
    /// Serves these machines, by cluster and node, by their own backends and all others by `rest`.
    #[must_use]
    pub fn over(
        machines: BTreeMap<(String, String), Arc<dyn Machines>>,
        rest: Arc<dyn Machines>,
    ) -> Arc<dyn Machines> {
        if machines.is_empty() {
            return rest;
        }
        let machines = machines.into_iter().map(|((cluster, node), one)| (name(&cluster, &node), one));
        Arc::new(Self::new(machines.collect(), rest, |one| one.backend()))
    }

    fn of(&self, cluster: &str, node: &str) -> &dyn Machines {
        self.at(&name(cluster, node))
    }
}

/// Joins cluster and node; neither contains a slash.
fn name(cluster: &str, node: &str) -> String {
    format!("{cluster}/{node}")
}

#[async_trait]
impl Machines for ByPlace<dyn Machines> {
    fn backend(&self) -> &'static str {
        self.said
    }

    fn is_simulated(&self, cluster: &str, node: &str) -> bool {
        self.of(cluster, node).is_simulated(cluster, node)
    }

    async fn devices(
        &self,
        cluster: &str,
        node: &str,
        gpus: u64,
        stamp: &CallMetadata,
    ) -> Result<Devices, ActionError> {
        self.of(cluster, node).devices(cluster, node, gpus, stamp).await
    }

    async fn set_network(
        &self,
        cluster: &str,
        node: &str,
        to: Segment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(cluster, node).set_network(cluster, node, to, stamp).await
    }

    async fn boot(
        &self,
        cluster: &str,
        node: &str,
        into: Environment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(cluster, node).boot(cluster, node, into, stamp).await
    }

    async fn scrub_gpu(
        &self,
        cluster: &str,
        node: &str,
        uuid: &str,
        reset: bool,
        stamp: &CallMetadata,
    ) -> Result<FilledGpu, ActionError> {
        self.of(cluster, node).scrub_gpu(cluster, node, uuid, reset, stamp).await
    }

    async fn sanitise(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        technique: DriveTechnique,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(cluster, node).sanitise(cluster, node, serial, technique, stamp).await
    }

    async fn sanitize_log(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        stamp: &CallMetadata,
    ) -> Result<SanitiseLog, ActionError> {
        self.of(cluster, node).sanitize_log(cluster, node, serial, stamp).await
    }

    async fn sample_sectors(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        seed: &str,
        stamp: &CallMetadata,
    ) -> Result<Samples, ActionError> {
        self.of(cluster, node).sample_sectors(cluster, node, serial, seed, stamp).await
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<Reset, ActionError> {
        self.of(cluster, node).reset(cluster, node, stamp).await
    }
}
