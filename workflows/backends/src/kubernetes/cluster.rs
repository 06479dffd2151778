//! A cluster with an API server, and its implementation of the capability `Kubernetes`.

use crate::kubernetes::{
    client::{
        discovery::At,
        error::Fault,
        request::{self, ApiRequest, deadline},
        watch,
    },
    labels::{self, LabelNames, terminating},
    objects::{merged, swapped},
    settings::{KubernetesTarget, KubernetesTargetError},
};
use async_trait::async_trait;
use engine::ActionError;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, path::Path, sync::Mutex, time::Duration};
use tokio::{sync::Semaphore, time::Instant};
use workflows::platform::{
    CallMetadata, FieldSwap, FoundObject, IsolationKind, Kubernetes, Manifest, ObjectKind, ObjectRef,
    Ownership, ProbeFinding,
};

/// The longest time to connect, within the deadline of the call.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A client of one cluster's API server.
pub struct KubernetesCluster {
    pub(super) client: kube::Client,
    /// Reads with separate credentials, if configured.
    pub(super) verifier: Option<kube::Client>,
    /// The cluster's name in the fleet.
    pub(super) name: String,
    pub(super) target: KubernetesTarget,
    pub(super) marks: LabelNames,
    /// Discovered API versions by plural name.
    pub(super) served: Mutex<BTreeMap<&'static str, String>>,
    /// Limits the number of concurrent watches.
    pub(super) watching: Semaphore,
}

/// Omits credentials.
impl fmt::Debug for KubernetesCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesCluster").field("target", &self.target).finish_non_exhaustive()
    }
}

impl KubernetesCluster {
    /// Creates the backend for the target. Reads the credentials; the first call sends the first request. A renewed
    /// token file is read again.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the remedy.
    pub async fn connect(target: &KubernetesTarget) -> Result<Self, KubernetesTargetError> {
        target.checked()?;
        // Another part of the process may have installed a provider; any provider is fine.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = match &target.kubeconfig {
            Some(path) => client_of(read("kubeconfig", path, target.context.as_ref()).await?)?,
            None => client_of(
                kube::Config::incluster()
                    .map_err(|e| KubernetesTargetError::NotInCluster { why: e.to_string() })?,
            )?,
        };
        let verifier = match &target.verifier_kubeconfig {
            Some(path) => Some(client_of(read("verifier_kubeconfig", path, None).await?)?),
            None => None,
        };
        Ok(Self {
            client,
            verifier,
            name: String::new(),
            marks: LabelNames::new(&target.prefix),
            target: target.clone(),
            served: Mutex::default(),
            watching: Semaphore::new(watch::AT_A_TIME),
        })
    }

    /// Sets the cluster's name in the fleet, which is used for all objects found in it.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    pub(super) async fn send(&self, ask: &ApiRequest, until: Instant) -> Result<Value, Fault> {
        request::send(&self.client, ask, until).await
    }

    /// Returns true if the operator's webhook replaces this object, so that it is neither created nor read.
    fn elsewhere(&self, place: &ObjectRef) -> bool {
        place.kind == ObjectKind::ValidatingAdmissionPolicy && self.target.admission_webhook.is_some()
    }

    /// Returns the location of the object and its live state.
    pub(super) async fn live(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<(At, Option<Value>), ActionError> {
        let until = deadline(stamp);
        let at = self.at(place, until).await?;
        let live = self.get(&at, until).await?;
        Ok((at, live))
    }
}

/// Reads a kubeconfig file.
async fn read(
    field: &'static str,
    path: &Path,
    context: Option<&String>,
) -> Result<kube::Config, KubernetesTargetError> {
    let wrong = |why: String| KubernetesTargetError::Kubeconfig { field, path: path.to_owned(), why };
    let file = Kubeconfig::read_from(path).map_err(|e| wrong(e.to_string()))?;
    let options = KubeConfigOptions { context: context.cloned(), ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(file, &options).await.map_err(|e| wrong(e.to_string()))
}

fn client_of(mut config: kube::Config) -> Result<kube::Client, KubernetesTargetError> {
    // The engine decides about retries. A retry at a lower level could repeat a call that took effect.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_WITHIN);
    kube::Client::try_from(config).map_err(|e| KubernetesTargetError::Client(e.to_string()))
}

/// Returns the result for an object that the operator's webhook replaces; it has no uid.
fn not_ours(manifest: &Manifest, stamp: &CallMetadata) -> FoundObject {
    FoundObject {
        uid: String::new(),
        tenant: manifest.tenant.clone(),
        step: stamp.step.clone(),
        spec: manifest.spec.clone(),
        terminating: false,
    }
}

#[async_trait]
impl Kubernetes for KubernetesCluster {
    fn backend(&self) -> &'static str {
        "kubernetes"
    }

    async fn apply(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        if self.elsewhere(&manifest.place) {
            return Ok(not_ours(manifest, stamp));
        }
        let found = self.make(manifest, stamp).await?;
        if manifest.place.kind == ObjectKind::ValidatingAdmissionPolicy {
            self.bound(&manifest.place, &manifest.tenant, stamp).await?;
        }
        Ok(found)
    }

    async fn patch(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        let changed = |found: &FoundObject| Ok(merged(&found.spec, &manifest.spec));
        self.change(&manifest.place, &manifest.tenant, stamp, changed).await
    }

    async fn compare_and_set(
        &self,
        place: &ObjectRef,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let name = place.full_name();
        self.change(place, tenant, stamp, |found| swapped(found, swap, &name)).await
    }

    async fn read(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        if self.elsewhere(place) {
            return Ok(None);
        }
        let (at, live) = self.live(place, stamp).await?;
        Ok(live.map(|live| self.found(&live, &at)))
    }

    async fn wait_until_gone(
        &self,
        place: &ObjectRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        let (at, live) = self.live(place, stamp).await?;
        let left = match live {
            Some(live) if labels::uid(&live) == uid && terminating(&live) => {
                let until = deadline(stamp);
                self.awaited(&at.path(), live, |_| false, (self.patience(until), until)).await?
            }
            other => other,
        };
        Ok(left.map(|left| self.found(&left, &at)))
    }

    async fn deletion_blocker(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<Option<String>, ActionError> {
        let (at, live) = self.live(place, stamp).await?;
        Ok(live.filter(terminating).map(|live| crate::kubernetes::objects::deletion::of(&at.name(), &live)))
    }

    async fn delete(&self, place: &ObjectRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.remove(place, uid, stamp).await
    }

    async fn take_node(
        &self,
        _cluster: &str,
        node: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.take(node, to, stamp).await
    }

    async fn cordon_node(
        &self,
        _cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.cordon(node, of, stamp).await
    }

    async fn uncordon_node(
        &self,
        _cluster: &str,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.uncordon(node, of, by, stamp).await
    }

    async fn return_node(
        &self,
        _cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.give_back(node, of, stamp).await
    }

    async fn probe_isolation(
        &self,
        cluster: &str,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        self.probe(cluster, tenant, workspace, kind, stamp).await
    }
}
