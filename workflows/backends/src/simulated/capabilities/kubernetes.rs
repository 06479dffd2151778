//! The Kubernetes-shaped capability, served by a world.

use crate::simulated::{
    Simulated, System, Verb,
    capabilities::{Ask, SIMULATED, found, value},
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use workflows::platform::{
    Finding, Found, IsolationKind, Kubernetes, Manifest, Ownership, Place, Stamp, Swap, workspace_name,
};

const NODE: &str = "Node";

#[async_trait]
impl Kubernetes for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn apply(&self, manifest: &Manifest, stamp: &Stamp) -> Result<Found, ActionError> {
        self.write(Verb::Apply, manifest, stamp).await
    }

    async fn patch(&self, manifest: &Manifest, stamp: &Stamp) -> Result<Found, ActionError> {
        self.write(Verb::Patch, manifest, stamp).await
    }

    async fn swap(
        &self,
        place: &Place,
        tenant: &str,
        swap: &Swap,
        stamp: &Stamp,
    ) -> Result<Found, ActionError> {
        let name = place.full_name();
        let ask = Ask::new(System::Kubernetes, &place.cluster, Verb::Swap, place.kind.into(), &name);
        found(self.send(ask.of(tenant).with(json!(swap)), stamp).await?)
    }

    async fn read(&self, place: &Place, stamp: &Stamp) -> Result<Option<Found>, ActionError> {
        let name = place.full_name();
        let ask = Ask::new(System::Kubernetes, &place.cluster, Verb::Read, place.kind.into(), &name);
        Ok(self.send(ask, stamp).await?.found)
    }

    async fn delete(&self, place: &Place, uid: &str, stamp: &Stamp) -> Result<(), ActionError> {
        let name = place.full_name();
        let ask = Ask::new(System::Kubernetes, &place.cluster, Verb::Delete, place.kind.into(), &name);
        self.send(ask.only(uid), stamp).await.map(drop)
    }

    async fn take_node(
        &self,
        cluster: &str,
        node: &str,
        to: &Ownership,
        stamp: &Stamp,
    ) -> Result<Ownership, ActionError> {
        self.own(Verb::Take, cluster, node, to, stamp).await
    }

    async fn cordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &Stamp,
    ) -> Result<Ownership, ActionError> {
        self.own(Verb::Cordon, cluster, node, of, stamp).await
    }

    async fn uncordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &Stamp,
    ) -> Result<Ownership, ActionError> {
        let ask = Ask::new(System::Kubernetes, cluster, Verb::Uncordon, NODE, node)
            .of(of.tenant.as_deref().unwrap_or_default());
        let mut spec = json!(of);
        if let Some(fields) = spec.as_object_mut() {
            fields.insert("by".into(), json!(by));
        }
        value(self.send(ask.with(spec), stamp).await?)
    }

    async fn return_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &Stamp,
    ) -> Result<Ownership, ActionError> {
        self.own(Verb::Return, cluster, node, of, stamp).await
    }

    async fn probe_isolation(
        &self,
        cluster: &str,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &Stamp,
    ) -> Result<Finding, ActionError> {
        let name = workspace_name(tenant, workspace)?;
        let ask = Ask::new(System::Kubernetes, cluster, Verb::Check, kind.into(), &name).of(tenant);
        value(self.send(ask, stamp).await?)
    }
}

impl Simulated {
    async fn write(&self, verb: Verb, manifest: &Manifest, stamp: &Stamp) -> Result<Found, ActionError> {
        let Manifest { place, tenant, spec } = manifest;
        let name = place.full_name();
        let ask = Ask::new(System::Kubernetes, &place.cluster, verb, place.kind.into(), &name);
        found(self.send(ask.of(tenant).with(spec.clone()), stamp).await?)
    }

    async fn own(
        &self,
        verb: Verb,
        cluster: &str,
        node: &str,
        owner: &Ownership,
        stamp: &Stamp,
    ) -> Result<Ownership, ActionError> {
        let tenant = owner.tenant.as_deref().unwrap_or_default();
        let ask = Ask::new(System::Kubernetes, cluster, verb, NODE, node).of(tenant);
        value(self.send(ask.with(json!(owner)), stamp).await?)
    }
}
