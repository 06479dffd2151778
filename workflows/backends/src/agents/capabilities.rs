//! Implements the platform's capabilities with agents.

use super::{Agents, Command, Output};
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeSet, sync::Arc};
use workflows::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, GpuHealth, GpuLayout, GpuSet, Gpus, RunningWorkload, ScrubLevel,
    Scrubbed, WorkloadNotice, WorkloadRef, Workloads, codes,
};

/// The error for an answer that does not match the command.
fn other(command: &'static str, changing: bool) -> ActionError {
    crate::http_response::unreadable(
        format!("the answer of the agent does not belong to {command}"),
        changing,
    )
}

#[async_trait]
impl Gpus for Agents {
    fn backend(&self) -> &'static str {
        "agents"
    }

    async fn layout(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuLayout, ActionError> {
        match self.ask(cluster, node, Command::Layout, stamp).await? {
            Output::Layout(layout) => Ok(layout),
            Output::Done
            | Output::Diagnosis(_)
            | Output::Health(_)
            | Output::Clients(_)
            | Output::Scrubbed(_) => Err(other("layout", false)),
        }
    }

    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let command = Command::SetLayout { profile: profile.to_owned() };
        done(self.ask(cluster, node, command, stamp).await?, "set_layout")
    }

    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: DiagnosisLevel,
        stamp: &CallMetadata,
    ) -> Result<Diagnosis, ActionError> {
        match self.ask(cluster, node, Command::Diagnose { level }, stamp).await? {
            Output::Diagnosis(diagnosis) => Ok(diagnosis),
            Output::Done
            | Output::Layout(_)
            | Output::Health(_)
            | Output::Clients(_)
            | Output::Scrubbed(_) => Err(other("diagnose", false)),
        }
    }

    async fn health(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuHealth, ActionError> {
        match self.ask(cluster, node, Command::Health, stamp).await? {
            Output::Health(health) => Ok(health),
            Output::Done
            | Output::Layout(_)
            | Output::Diagnosis(_)
            | Output::Clients(_)
            | Output::Scrubbed(_) => Err(other("health", false)),
        }
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        done(self.ask(cluster, node, Command::Reset, stamp).await?, "reset")
    }

    async fn reboot(
        &self,
        cluster: &str,
        node: &str,
        boot: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let command = Command::Reboot { boot: boot.to_owned() };
        done(self.ask(cluster, node, command, stamp).await?, "reboot")
    }
}

fn done(output: Output, command: &'static str) -> Result<(), ActionError> {
    match output {
        Output::Done => Ok(()),
        Output::Layout(_)
        | Output::Diagnosis(_)
        | Output::Health(_)
        | Output::Clients(_)
        | Output::Scrubbed(_) => Err(other(command, true)),
    }
}

/// Workloads of a cluster whose GPUs are served by agents. GPU calls go to the agents, all others to another backend.
#[derive(Debug)]
pub struct GpusByAgents {
    agents: Arc<Agents>,
    rest: Arc<dyn Workloads>,
    said: &'static str,
}

impl GpusByAgents {
    /// Combines agents with `rest`, which serves all calls that are not about GPUs.
    #[must_use]
    pub fn over(agents: Arc<Agents>, rest: Arc<dyn Workloads>) -> Self {
        // Lives as long as the process; there is one per cluster.
        let said = String::leak(format!("{} and agents", rest.backend()));
        Self { agents, rest, said }
    }
}

#[async_trait]
impl Workloads for GpusByAgents {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn observe(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        self.rest.observe(of, stamp).await
    }

    async fn wait_until_gone(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        self.rest.wait_until_gone(of, stamp).await
    }

    async fn start(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.rest.start(of, gpus, service, stamp).await
    }

    async fn set_notice(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.rest.set_notice(of, telling, stamp).await
    }

    async fn checkpoint(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError> {
        self.rest.checkpoint(of, stamp).await
    }

    async fn evict(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.rest.evict(of, uid, stamp).await
    }

    async fn force_remove(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.rest.force_remove(of, uid, stamp).await
    }

    async fn requeue(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.rest.requeue(of, stamp).await
    }

    async fn notify_ended(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.rest.notify_ended(of, stamp).await
    }

    /// Returns the processes that the driver lists and the GPU users that the cluster reports. Only the cluster knows a
    /// job that has GPUs assigned but has not opened them.
    async fn clients(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError> {
        let command = Command::Clients { gpus: gpus.clone() };
        let mut open = match self.agents.ask(cluster, node, command, stamp).await? {
            Output::Clients(clients) => clients,
            Output::Done
            | Output::Layout(_)
            | Output::Diagnosis(_)
            | Output::Health(_)
            | Output::Scrubbed(_) => return Err(other("clients", false)),
        };
        match self.rest.clients(cluster, node, gpus, stamp).await {
            Ok(more) => open.extend(more),
            Err(error) if error.code == codes::UNSUPPORTED => {}
            Err(error) => return Err(error),
        }
        Ok(open)
    }

    async fn scrub(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError> {
        let command = Command::Scrub { gpus: gpus.clone(), level };
        match self.agents.ask(cluster, node, command, stamp).await? {
            Output::Scrubbed(scrubbed) => Ok(scrubbed),
            Output::Done
            | Output::Layout(_)
            | Output::Diagnosis(_)
            | Output::Health(_)
            | Output::Clients(_) => Err(other("scrub", !stamp.dry_run)),
        }
    }
}
