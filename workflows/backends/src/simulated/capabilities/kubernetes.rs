//! Implements the Kubernetes capability with a simulated platform.

use crate::simulated::{
    Simulated, System, Verb,
    capabilities::{Call, SIMULATED, found, value},
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use workflows::platform::{
    CallMetadata, FieldSwap, FoundObject, IsolationKind, Kubernetes, Manifest, ObjectRef, Ownership,
    ProbeFinding, workspace_name,
};

const NODE: &str = "Node";

#[async_trait]
impl Kubernetes for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn apply(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.write(Verb::Apply, manifest, stamp).await
    }

    async fn patch(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.write(Verb::Patch, manifest, stamp).await
    }

    async fn compare_and_set(
        &self,
        place: &ObjectRef,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let name = place.full_name();
        let ask = Call::new(System::Kubernetes, &place.cluster, Verb::Swap, place.kind.into(), &name);
        found(self.send(ask.of(tenant).with(json!(swap)), stamp).await?)
    }

    async fn read(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        let name = place.full_name();
        let ask = Call::new(System::Kubernetes, &place.cluster, Verb::Read, place.kind.into(), &name);
        Ok(self.send(ask, stamp).await?.found)
    }

    async fn delete(&self, place: &ObjectRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let name = place.full_name();
        let ask = Call::new(System::Kubernetes, &place.cluster, Verb::Delete, place.kind.into(), &name);
        self.send(ask.only(uid), stamp).await.map(drop)
    }

    async fn take_node(
        &self,
        cluster: &str,
        node: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.own(Verb::Take, cluster, node, to, stamp).await
    }

    async fn cordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.own(Verb::Cordon, cluster, node, of, stamp).await
    }

    async fn uncordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        let ask = Call::new(System::Kubernetes, cluster, Verb::Uncordon, NODE, node)
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
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        self.own(Verb::Return, cluster, node, of, stamp).await
    }

    async fn probe_isolation(
        &self,
        cluster: &str,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let name = workspace_name(tenant, workspace)?;
        let ask = Call::new(System::Kubernetes, cluster, Verb::Check, kind.into(), &name).of(tenant);
        value(self.send(ask, stamp).await?)
    }
}

impl Simulated {
    async fn write(
        &self,
        verb: Verb,
        manifest: &Manifest,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let Manifest { place, tenant, spec } = manifest;
        let name = place.full_name();
        let ask = Call::new(System::Kubernetes, &place.cluster, verb, place.kind.into(), &name);
        found(self.send(ask.of(tenant).with(spec.clone()), stamp).await?)
    }

    async fn own(
        &self,
        verb: Verb,
        cluster: &str,
        node: &str,
        owner: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        let tenant = owner.tenant.as_deref().unwrap_or_default();
        let ask = Call::new(System::Kubernetes, cluster, verb, NODE, node).of(tenant);
        value(self.send(ask.with(json!(owner)), stamp).await?)
    }
}
