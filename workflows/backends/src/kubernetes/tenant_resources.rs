//! Finds and removes a tenant's objects in a cluster.
//!
//! Invariant: a failed list is an error, never an absence. An object is gone only if the list does not contain it; a
//! terminating object is not gone. Finalizers are never removed.

pub(crate) mod admit;
pub(crate) mod kinds;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod survey;
pub(crate) mod volumes;

use crate::kubernetes::{
    cluster::KubernetesCluster,
    tenant_resources::{
        kinds::{NAMESPACE, QUEUE},
        read::Reader,
        volumes::Storage,
    },
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::Value;
use workflows::platform::{
    AccessMode, CallMetadata, ObservedResource, Observer, TenantResource, TenantResources, VerifiedAs, codes,
};

/// The system name of clusters.
pub(super) const SYSTEM: &str = "kubernetes";

pub(super) fn unsupported(what: &str) -> ActionError {
    ActionError::permanent(codes::UNSUPPORTED, what)
}

/// Returns namespace and name of an object.
pub(super) fn parts(thing: &TenantResource, namespaced: bool) -> Result<(Option<&str>, &str), ActionError> {
    match (namespaced, thing.name.split_once('/')) {
        (true, Some((namespace, name))) => Ok((Some(namespace), name)),
        (false, None) => Ok((None, &thing.name)),
        (true, None) => {
            let why = format!("{thing} is in a namespace: write NAMESPACE/{}", thing.name);
            Err(ActionError::permanent(codes::REFUSED, why))
        }
        (false, Some(_)) => {
            let why = format!("{thing} is not in a namespace: write only its name");
            Err(ActionError::permanent(codes::REFUSED, why))
        }
    }
}

impl KubernetesCluster {
    async fn looked(
        &self,
        thing: &TenantResource,
        reader: &Reader,
    ) -> Result<Option<ObservedResource>, ActionError> {
        // A kind that is not served has no objects.
        let Some(kind) = reader.kind(&thing.kind).await? else { return Ok(None) };
        let (namespace, name) = parts(thing, kind.namespaced)?;
        let Some(object) = reader.named(&kind, namespace, name).await? else { return Ok(None) };
        let tenant = match Storage::of(&kind.word) {
            Some(storage) => self.owner_of(storage, &object, reader).await?,
            None => self.mark(&kind.word, &object).to_owned(),
        };
        let mut seen = self.seen(&kind, &object, &tenant);
        let door = match kind.word.as_str() {
            QUEUE => self.queue_door(&object, name, &tenant, reader).await?,
            NAMESPACE => self.namespace_door(name, reader).await?,
            _ => Value::Null,
        };
        if let (Value::Object(said), Value::Object(door)) = (&mut seen.spec, door) {
            said.extend(door);
        }
        // Uses the caller's name of the place.
        Ok(Some(ObservedResource { thing: thing.clone(), ..seen }))
    }
}

#[async_trait]
impl TenantResources for KubernetesCluster {
    fn backend(&self) -> &'static str {
        SYSTEM
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    fn verified_as(&self, _: &TenantResource, eyes: Observer) -> VerifiedAs {
        match eyes {
            Observer::Platform => VerifiedAs::Platform,
            // Without its own credentials, the verifier cannot read at all.
            Observer::Verifier => VerifiedAs::Verifier,
        }
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        let reader = self.reader(eyes, stamp).await?;
        self.surveyed(tenant, &reader).await
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let reader = self.reader(eyes, stamp).await?;
        self.looked(thing, &reader).await
    }

    async fn wait_until_gone(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let reader = self.reader(Observer::Platform, stamp).await?;
        if !stamp.dry_run {
            self.left(thing, uid, &reader).await?;
        }
        self.looked(thing, &reader).await
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        match thing.kind.as_str() {
            QUEUE => self.admit_queue(&thing.name, tenant, admits, stamp).await,
            NAMESPACE => self.admit_namespace(&thing.name, tenant, admits, stamp).await,
            other => Err(unsupported(&format!(
                "a {other} does not admit workloads; use its ClusterQueue or its Namespace"
            ))),
        }
    }

    async fn rewrap(
        &self,
        thing: &TenantResource,
        _: &str,
        _: &str,
        _: &CallMetadata,
    ) -> Result<(), ActionError> {
        let why = format!(
            "Kubernetes cannot encrypt {thing} with another key: copy the data to retain, then classify {thing} as destroyable"
        );
        Err(unsupported(&why))
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.removed(thing, uid, stamp).await
    }
}
