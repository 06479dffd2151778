//! Implements surveys of tenants' objects, and machines, with a simulated platform.

use crate::simulated::{
    Simulated, System, Verb,
    capabilities::{Call, SIMULATED, key_safety, value},
    state::machines::{DEVICES, LOG, SAMPLES},
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use workflows::platform::{
    AccessMode, CallMetadata, Devices, DriveTechnique, EmptyProgress, Environment, FilledGpu, FoundObject,
    KeySafety, Machines, ObservedResource, Observer, ProbeFinding, Reset, Samples, SanitiseLog, Segment,
    TenantResource, TenantResources, VerifiedAs, codes,
};

fn system(name: &str) -> Result<System, ActionError> {
    serde_json::from_value(json!(name))
        .map_err(|e| ActionError::permanent(codes::REFUSED, format!("no system is called {name:?}: {e}")))
}

fn seen(thing: TenantResource, found: FoundObject) -> ObservedResource {
    let FoundObject { uid, tenant, mut spec, terminating, .. } = found;
    if let ("keys", "Key") = (thing.system.as_str(), thing.kind.as_str()) {
        let can_come_back = json!(key_safety(&spec).can_come_back);
        if let Some(spec) = spec.as_object_mut() {
            spec.insert(KeySafety::FIELD.to_owned(), can_come_back);
        }
    }
    ObservedResource { thing, uid, tenant, spec, terminating }
}

impl Simulated {
    async fn do_to(
        &self,
        verb: Verb,
        thing: &TenantResource,
        spec: serde_json::Value,
        tenant: &str,
        uid: Option<&str>,
        stamp: &CallMetadata,
    ) -> Result<crate::simulated::Response, ActionError> {
        let ask = Call::new(system(&thing.system)?, &thing.place, verb, &thing.kind, &thing.name);
        let ask = ask.of(tenant).with(spec);
        self.send(
            match uid {
                Some(uid) => ask.only(uid),
                None => ask,
            },
            stamp,
        )
        .await
    }

    async fn machine(
        &self,
        verb: Verb,
        kind: &str,
        (cluster, name): (&str, &str),
        spec: serde_json::Value,
        stamp: &CallMetadata,
    ) -> Result<crate::simulated::Response, ActionError> {
        self.send(Call::new(System::Machines, cluster, verb, kind, name).with(spec), stamp).await
    }
}

#[async_trait]
impl TenantResources for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        true
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        true
    }

    fn verified_as(&self, _: &TenantResource, eyes: Observer) -> VerifiedAs {
        match eyes {
            Observer::Platform => VerifiedAs::Platform,
            // The simulated platform distinguishes platform and verifier.
            Observer::Verifier => VerifiedAs::Verifier,
        }
    }

    async fn survey(
        &self,
        of: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let ask = Call::new(system(of)?, "", Verb::List, "", "").of(tenant).with(json!({ "eyes": eyes }));
        let listed: Vec<(TenantResource, FoundObject)> = value(self.send(ask, stamp).await?)?;
        Ok(listed.into_iter().map(|(thing, found)| seen(thing, found)).collect())
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let there = self.do_to(Verb::Read, thing, json!({ "eyes": eyes }), "", None, stamp).await?.found;
        Ok(there.map(|found| seen(thing.clone(), found)))
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let policy = match admits {
            AccessMode::All => "None",
            AccessMode::ReadOnly => "Hold",
            AccessMode::Nothing => "HoldAndDrain",
        };
        let spec = match thing.kind.as_str() {
            "ClusterQueue" => json!({ "stopPolicy": policy }),
            _ if admits == AccessMode::All => json!({ "admits": null }),
            _ => json!({ "admits": admits }),
        };
        self.do_to(Verb::Patch, thing, spec, tenant, None, stamp).await.map(drop)
    }

    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.do_to(Verb::Patch, thing, json!({ "key": key }), tenant, None, stamp).await.map(drop)
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        value(self.do_to(Verb::Empty, thing, json!({}), "", Some(uid), stamp).await?)
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.do_to(Verb::Delete, thing, json!({}), "", Some(uid), stamp).await.map(drop)
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let ask = Call::new(System::Keys, &key.place, Verb::Check, "decrypt", &key.name);
        value(self.send(ask, stamp).await?)
    }
}

#[async_trait]
impl Machines for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    fn is_simulated(&self, _: &str, _: &str) -> bool {
        true
    }

    async fn devices(
        &self,
        cluster: &str,
        node: &str,
        gpus: u64,
        stamp: &CallMetadata,
    ) -> Result<Devices, ActionError> {
        value(self.machine(Verb::Read, DEVICES, (cluster, node), json!({ "gpus": gpus }), stamp).await?)
    }

    async fn set_network(
        &self,
        cluster: &str,
        node: &str,
        to: Segment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.machine(Verb::Apply, "Network", (cluster, node), json!({ "to": to }), stamp).await.map(drop)
    }

    async fn boot(
        &self,
        cluster: &str,
        node: &str,
        into: Environment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.machine(Verb::Apply, "Environment", (cluster, node), json!({ "into": into }), stamp)
            .await
            .map(drop)
    }

    async fn scrub_gpu(
        &self,
        cluster: &str,
        node: &str,
        uuid: &str,
        reset: bool,
        stamp: &CallMetadata,
    ) -> Result<FilledGpu, ActionError> {
        let name = format!("{node}/{uuid}");
        let spec = json!({ "reset": reset });
        value(self.machine(Verb::Apply, "GpuMemory", (cluster, &name), spec, stamp).await?)
    }

    async fn sanitise(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        technique: DriveTechnique,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let name = format!("{node}/{serial}");
        let spec = json!({ "technique": technique });
        self.machine(Verb::Apply, "Sanitize", (cluster, &name), spec, stamp).await.map(drop)
    }

    async fn sanitize_log(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        stamp: &CallMetadata,
    ) -> Result<SanitiseLog, ActionError> {
        let name = format!("{node}/{serial}");
        value(self.machine(Verb::Read, LOG, (cluster, &name), json!({}), stamp).await?)
    }

    async fn sample_sectors(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        seed: &str,
        stamp: &CallMetadata,
    ) -> Result<Samples, ActionError> {
        let name = format!("{node}/{serial}");
        value(self.machine(Verb::Check, SAMPLES, (cluster, &name), json!({ "seed": seed }), stamp).await?)
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<Reset, ActionError> {
        value(self.machine(Verb::Apply, "Firmware", (cluster, node), json!({}), stamp).await?)
    }
}
