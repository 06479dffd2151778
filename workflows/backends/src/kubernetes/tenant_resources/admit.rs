//! Sets the access mode of a queue or a namespace, and evicts running pods.
//!
//! Kueue's stop policy stops a queue, but only workloads that Kueue admits. To admit nothing, the namespace is also
//! closed by a quota of zero pods that belongs to Tenure, and running pods are evicted. Reopening removes the quota and
//! restores the policy. Objects of others are not written.

use crate::kubernetes::{
    client::{
        error::Fault,
        request::{ApiRequest, escaped},
    },
    cluster::KubernetesCluster,
    labels::{at, label, terminating, text, uid},
    objects::merged,
    tenant_resources::{
        kinds::{NAMESPACE, POD, QUOTA},
        read::{Reader, Selector},
    },
};
use engine::ActionError;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use workflows::platform::{
    AccessMode, CallMetadata, LOOK_AGAIN, Manifest, ObjectKind, ObjectRef, Observer, codes,
};

/// The quota that closes a namespace.
pub(in crate::kubernetes) const CLOSED: &str = "tenure-closed";
/// The delay between two evictions of a pod that a disruption budget protects.
const AGAIN: Duration = Duration::from_secs(1);
/// The part of a call's time that is reserved for its answer.
const REST: Duration = Duration::from_secs(3);

impl KubernetesCluster {
    /// Returns the access mode of a queue and the number of pods in its workspace's namespace. `unfinished` is set
    /// while the mode is not fully in effect.
    pub(in crate::kubernetes) async fn queue_door(
        &self,
        queue: &Value,
        name: &str,
        tenant: &str,
        reader: &Reader,
    ) -> Result<Value, ActionError> {
        let policy = match text(queue, &["spec", "stopPolicy"]) {
            "" => "None",
            policy => policy,
        };
        let namespace = reader.core(NAMESPACE, None, name).await?;
        let behind = namespace.filter(|namespace| {
            label(namespace, &self.marks.tenant()) == Some(tenant) && !terminating(namespace)
        });
        let admitted = ["admittedWorkloads", "reservingWorkloads"]
            .map(|field| at(queue, &["status", field]).and_then(Value::as_u64).unwrap_or_default());
        let mut running = admitted.into_iter().max().unwrap_or_default();
        let mut unfinished = false;
        if behind.is_some() {
            let closed = reader.core(QUOTA, Some(name), CLOSED).await?.is_some();
            let pods = reader.running(name).await?;
            running = running.max(count(&pods));
            let drained = policy == "HoldAndDrain";
            unfinished = drained != closed || (drained && pods.iter().any(|pod| !terminating(pod)));
        }
        Ok(json!({ "stopPolicy": policy, "running": running, "unfinished": unfinished }))
    }

    /// Returns the same for a namespace.
    pub(in crate::kubernetes) async fn namespace_door(
        &self,
        name: &str,
        reader: &Reader,
    ) -> Result<Value, ActionError> {
        let closed = reader.core(QUOTA, Some(name), CLOSED).await?.is_some();
        let pods = reader.running(name).await?;
        let admits = match (closed, pods.iter().any(|pod| !terminating(pod))) {
            (false, _) => AccessMode::All,
            (true, true) => AccessMode::ReadOnly,
            (true, false) => AccessMode::Nothing,
        };
        Ok(json!({ "admits": admits, "running": count(&pods) }))
    }

    /// Sets the access mode of a queue. The namespace is closed before the queue, so that evicted pods do not restart,
    /// and opened after it.
    pub(in crate::kubernetes) async fn admit_queue(
        &self,
        name: &str,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let policy = match admits {
            AccessMode::All => "None",
            AccessMode::ReadOnly => "Hold",
            AccessMode::Nothing => "HoldAndDrain",
        };
        if admits == AccessMode::Nothing {
            self.close(name, tenant, stamp).await?;
        }
        let place = ObjectRef::new(&self.name, ObjectKind::ClusterQueue, name);
        let set = self
            .change(&place, tenant, stamp, |found| Ok(merged(&found.spec, &json!({ "stopPolicy": policy }))));
        match set.await {
            Ok(_) => {}
            // A queue that no longer exists needs no change.
            Err(error) if error.code == codes::OBJECT_MISSING => {}
            Err(error) => return Err(error),
        }
        match admits {
            AccessMode::Nothing => self.evict_all(name, tenant, stamp).await,
            AccessMode::All | AccessMode::ReadOnly => self.open(name, tenant, stamp).await,
        }
    }

    pub(in crate::kubernetes) async fn admit_namespace(
        &self,
        name: &str,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        match admits {
            AccessMode::All => self.open(name, tenant, stamp).await,
            AccessMode::ReadOnly => self.close(name, tenant, stamp).await,
            AccessMode::Nothing => {
                self.close(name, tenant, stamp).await?;
                self.evict_all(name, tenant, stamp).await
            }
        }
    }

    /// Returns true if the tenant's namespace with this name exists and is not being deleted. Fails for a namespace of
    /// another tenant.
    async fn is_there(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<bool, ActionError> {
        let (_, live) = self.live(&ObjectRef::new(&self.name, ObjectKind::Namespace, name), stamp).await?;
        let Some(live) = live.filter(|live| !terminating(live)) else { return Ok(false) };
        let owner = label(&live, &self.marks.tenant()).unwrap_or_default();
        if owner == tenant {
            return Ok(true);
        }
        let why = format!("Namespace {name} belongs to {owner:?}, so it was not changed");
        Err(ActionError::permanent(codes::OBJECT_FOREIGN, why))
    }

    fn closure(&self, namespace: &str) -> ObjectRef {
        ObjectRef::within(&self.name, ObjectKind::ResourceQuota, namespace, CLOSED)
    }

    async fn close(&self, namespace: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        if !self.is_there(namespace, tenant, stamp).await? {
            return Ok(());
        }
        let (place, spec) = (self.closure(namespace), json!({ "hard": { "pods": 0 } }));
        let manifest = Manifest { place, tenant: tenant.to_owned(), spec };
        self.make(&manifest, &stamp.for_part("close")).await.map(drop)
    }

    /// Removes the closing quota of Tenure, and no other.
    async fn open(&self, namespace: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let place = self.closure(namespace);
        let (at, live) = self.live(&place, stamp).await?;
        match live.map(|live| self.found(&live, &at)).filter(|found| found.tenant == tenant) {
            Some(found) => self.remove(&place, &found.uid, &stamp.for_part("open")).await,
            None => Ok(()),
        }
    }

    /// Evicts every pod of the tenant's namespace. Retries pods that a disruption budget protects until the time of the
    /// call is up.
    async fn evict_all(
        &self,
        namespace: &str,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if !self.is_there(namespace, tenant, stamp).await? {
            return Ok(());
        }
        let reader = self.reader(Observer::Platform, stamp).await?;
        let version = reader.eviction().await?;
        loop {
            let mut kept = Vec::new();
            for pod in reader.running(namespace).await?.iter().filter(|pod| !terminating(pod)) {
                kept.extend(self.evict(namespace, pod, &version, stamp, &reader).await?);
            }
            if kept.is_empty() {
                return Ok(());
            }
            if Instant::now() + AGAIN + REST > reader.until {
                let message = format!(
                    "{} pods of {namespace} cannot be evicted: {}; remove the disruption budgets, or delete the pods by hand",
                    kept.len(),
                    kept.join("; ")
                );
                return Err(ActionError { message, ..ActionError::pending(codes::DRAINING, LOOK_AGAIN) });
            }
            sleep(AGAIN).await;
        }
    }

    /// Evicts one pod. Returns the disruption budget that prevents it, if any.
    async fn evict(
        &self,
        namespace: &str,
        pod: &Value,
        version: &str,
        stamp: &CallMetadata,
        reader: &Reader,
    ) -> Result<Option<String>, ActionError> {
        let name = text(pod, &["metadata", "name"]);
        let eviction = json!({
            "apiVersion": version,
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
            "deleteOptions": { "preconditions": { "uid": uid(pod) } },
        });
        let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", escaped(namespace), escaped(name));
        match reader.send(&ApiRequest::post(&path, eviction).under(stamp)).await {
            Ok(_) => Ok(None),
            Err(Fault::Refused(refusal)) => match refusal.budget() {
                Some(budget) => Ok(Some(format!("pod {name}: {budget}"))),
                // The pod is gone, or another one has its name.
                None if refusal.is_missing() || refusal.is_outdated() => Ok(None),
                None => Err(refusal.error()),
            },
            Err(fault) => Err(fault.into()),
        }
    }
}

fn count(pods: &[Value]) -> u64 {
    u64::try_from(pods.len()).unwrap_or(u64::MAX)
}

impl Reader {
    /// Returns the unfinished pods of a namespace, including terminating ones.
    async fn running(&self, namespace: &str) -> Result<Vec<Value>, ActionError> {
        let Some(pods) = self.kind(POD).await? else { return Ok(Vec::new()) };
        let live = Selector::Fields("status.phase!=Succeeded,status.phase!=Failed".to_owned());
        self.list(&pods, Some(namespace), &live).await
    }

    /// Returns the API version of the eviction subresource, which differs from the version of pods.
    async fn eviction(&self) -> Result<String, ActionError> {
        let listed = self.ask(&ApiRequest::get("/api/v1")).await?;
        let all = listed.get("resources").and_then(Value::as_array);
        let one = all.into_iter().flatten().find(|one| text(one, &["name"]) == "pods/eviction");
        let version = one.map(|one| format!("{}/{}", text(one, &["group"]), text(one, &["version"])));
        version.ok_or_else(|| {
            crate::kubernetes::tenant_resources::unsupported(
                "the server cannot evict pods: it does not serve pods/eviction",
            )
        })
    }
}
