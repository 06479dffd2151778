//! Implements workloads and their GPUs with a simulated platform.

use super::{Call, SIMULATED, Simulated, value};
use crate::simulated::{
    System, Verb,
    state::workloads::{CHECKPOINT, CLIENTS, SCRUB, WORKLOAD},
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use workflows::platform::{
    CallMetadata, FoundObject, GpuSet, ObservedGpus, RunningWorkload, ScrubLevel, Scrubbed, WorkloadNotice,
    WorkloadRef, Workloads, codes,
};

fn ask<'a>(verb: Verb, of: &'a WorkloadRef, name: &'a str) -> Call<'a> {
    Call::new(System::Kubernetes, &of.cluster, verb, WORKLOAD, name).of(&of.tenant)
}

#[async_trait]
impl Workloads for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn observe(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        let response = self.send(ask(Verb::Read, of, &of.full_name()), stamp).await?;
        response.found.map(seen).transpose()
    }

    async fn start(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let weight = service.then_some(100);
        let spec = json!({ "workspace": of.workspace, "active": true, "pods": true, "gpus": gpus, "weight": weight });
        self.send(ask(Verb::Run, of, &of.full_name()).with(spec), stamp).await.map(drop)
    }

    async fn start_on_slices(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        profiles: &BTreeMap<String, String>,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let weight = service.then_some(100);
        let spec = json!({
            "workspace": of.workspace, "active": true, "pods": true, "gpus": gpus, "profiles": profiles,
            "weight": weight,
        });
        self.send(ask(Verb::Run, of, &of.full_name()).with(spec), stamp).await.map(drop)
    }

    async fn set_notice(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let change = match telling {
            WorkloadNotice::EndsAt(at) => json!({ "reclaim_at": at }),
            WorkloadNotice::GoesOn => json!({ "reclaim_at": null, "checkpointed": null }),
            WorkloadNotice::Weight(weight) => json!({ "weight": weight }),
        };
        self.send(ask(Verb::Run, of, &of.full_name()).with(change), stamp).await.map(drop)
    }

    async fn checkpoint(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError> {
        let name = of.full_name();
        let ask = Call::new(System::Kubernetes, &of.cluster, Verb::Run, CHECKPOINT, &name).of(&of.tenant);
        value(self.send(ask, stamp).await?)
    }

    async fn evict(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let name = of.full_name();
        let evicted = ask(Verb::Delete, of, &name).only(uid).with(json!({ "evict": true }));
        self.send(evicted, stamp).await.map(drop)
    }

    async fn notify_ended(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.send(ask(Verb::Delete, of, &of.full_name()), stamp).await.map(drop)
    }

    async fn force_remove(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let name = of.full_name();
        let forced = ask(Verb::Delete, of, &name).only(uid).with(json!({ "evict": true, "force": true }));
        self.send(forced, stamp).await.map(drop)
    }

    async fn requeue(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        let told = json!({ "reclaim_at": null, "checkpointed": null });
        self.send(ask(Verb::Run, of, &of.full_name()).with(told), stamp).await.map(drop)
    }

    async fn clients(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError> {
        let ask = Call::new(System::Gpus, cluster, Verb::Check, CLIENTS, node);
        value(self.send(ask.with(json!({ "gpus": gpus })), stamp).await?)
    }

    async fn scrub(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError> {
        let ask = Call::new(System::Gpus, cluster, Verb::Run, SCRUB, node);
        value(self.send(ask.with(json!({ "gpus": gpus, "level": level })), stamp).await?)
    }
}

fn seen(found: FoundObject) -> Result<RunningWorkload, ActionError> {
    let spec = |name: &str| found.spec.get(name).cloned().unwrap_or_default();
    let unreadable = |e: serde_json::Error| ActionError::permanent(codes::UNREADABLE, e);
    Ok(RunningWorkload {
        active: spec("active") == Value::Bool(true),
        pods: spec("pods") == Value::Bool(true),
        gpus: ObservedGpus::reported(serde_json::from_value(spec("gpus")).unwrap_or_default()),
        weight: serde_json::from_value(spec("weight")).map_err(unreadable)?,
        reclaim_at: serde_json::from_value(spec("reclaim_at")).map_err(unreadable)?,
        checkpointed: spec("checkpointed") == Value::Bool(true),
        uid: found.uid,
    })
}
