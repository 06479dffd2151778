//! What tenants leave behind and the machines they leave it on, served by a world.

use crate::simulated::{
    Simulated, System, Verb,
    capabilities::{Ask, SIMULATED, value},
    state::machines::{DEVICES, LOG, SAMPLES},
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use workflows::platform::{
    Admits, Devices, DriveTechnique, Emptied, Environment, Estate, Eyes, FilledGpu, Finding, Found, Machines,
    Reset, Samples, SanitiseLog, Seen, Segment, Stamp, Thing, codes,
};

fn system(name: &str) -> Result<System, ActionError> {
    serde_json::from_value(json!(name))
        .map_err(|e| ActionError::permanent(codes::REFUSED, format!("no system is called {name:?}: {e}")))
}

fn seen(thing: Thing, found: Found) -> Seen {
    let Found { uid, tenant, spec, terminating, .. } = found;
    Seen { thing, uid, tenant, spec, terminating }
}

impl Simulated {
    async fn do_to(
        &self,
        verb: Verb,
        thing: &Thing,
        spec: serde_json::Value,
        tenant: &str,
        uid: Option<&str>,
        stamp: &Stamp,
    ) -> Result<crate::simulated::Response, ActionError> {
        let ask = Ask::new(system(&thing.system)?, &thing.place, verb, &thing.kind, &thing.name);
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
        stamp: &Stamp,
    ) -> Result<crate::simulated::Response, ActionError> {
        self.send(Ask::new(System::Machines, cluster, verb, kind, name).with(spec), stamp).await
    }
}

#[async_trait]
impl Estate for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn survey(
        &self,
        of: &str,
        tenant: &str,
        eyes: Eyes,
        stamp: &Stamp,
    ) -> Result<Vec<Seen>, ActionError> {
        let ask = Ask::new(system(of)?, "", Verb::List, "", "").of(tenant).with(json!({ "eyes": eyes }));
        let listed: Vec<(Thing, Found)> = value(self.send(ask, stamp).await?)?;
        Ok(listed.into_iter().map(|(thing, found)| seen(thing, found)).collect())
    }

    async fn look(&self, thing: &Thing, eyes: Eyes, stamp: &Stamp) -> Result<Option<Seen>, ActionError> {
        let there = self.do_to(Verb::Read, thing, json!({ "eyes": eyes }), "", None, stamp).await?.found;
        Ok(there.map(|found| seen(thing.clone(), found)))
    }

    async fn admit(
        &self,
        thing: &Thing,
        tenant: &str,
        admits: Admits,
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        let policy = match admits {
            Admits::All => "None",
            Admits::ReadOnly => "Hold",
            Admits::Nothing => "HoldAndDrain",
        };
        let spec = match thing.kind.as_str() {
            "ClusterQueue" => json!({ "stopPolicy": policy }),
            _ if admits == Admits::All => json!({ "admits": null }),
            _ => json!({ "admits": admits }),
        };
        self.do_to(Verb::Patch, thing, spec, tenant, None, stamp).await.map(drop)
    }

    async fn rewrap(&self, thing: &Thing, tenant: &str, key: &str, stamp: &Stamp) -> Result<(), ActionError> {
        self.do_to(Verb::Patch, thing, json!({ "key": key }), tenant, None, stamp).await.map(drop)
    }

    async fn empty(&self, thing: &Thing, uid: &str, stamp: &Stamp) -> Result<Emptied, ActionError> {
        value(self.do_to(Verb::Empty, thing, json!({}), "", Some(uid), stamp).await?)
    }

    async fn remove(&self, thing: &Thing, uid: &str, stamp: &Stamp) -> Result<(), ActionError> {
        self.do_to(Verb::Delete, thing, json!({}), "", Some(uid), stamp).await.map(drop)
    }

    async fn undecryptable(&self, key: &Thing, stamp: &Stamp) -> Result<Finding, ActionError> {
        let ask = Ask::new(System::Keys, &key.place, Verb::Check, "decrypt", &key.name);
        value(self.send(ask, stamp).await?)
    }
}

#[async_trait]
impl Machines for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn devices(
        &self,
        cluster: &str,
        node: &str,
        gpus: u64,
        stamp: &Stamp,
    ) -> Result<Devices, ActionError> {
        value(self.machine(Verb::Read, DEVICES, (cluster, node), json!({ "gpus": gpus }), stamp).await?)
    }

    async fn connect(
        &self,
        cluster: &str,
        node: &str,
        to: Segment,
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        self.machine(Verb::Apply, "Network", (cluster, node), json!({ "to": to }), stamp).await.map(drop)
    }

    async fn boot(
        &self,
        cluster: &str,
        node: &str,
        into: Environment,
        stamp: &Stamp,
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
        stamp: &Stamp,
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
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        let name = format!("{node}/{serial}");
        let spec = json!({ "technique": technique });
        self.machine(Verb::Apply, "Sanitize", (cluster, &name), spec, stamp).await.map(drop)
    }

    async fn log(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        stamp: &Stamp,
    ) -> Result<SanitiseLog, ActionError> {
        let name = format!("{node}/{serial}");
        value(self.machine(Verb::Read, LOG, (cluster, &name), json!({}), stamp).await?)
    }

    async fn sample(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        seed: &str,
        stamp: &Stamp,
    ) -> Result<Samples, ActionError> {
        let name = format!("{node}/{serial}");
        value(self.machine(Verb::Check, SAMPLES, (cluster, &name), json!({ "seed": seed }), stamp).await?)
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &Stamp) -> Result<Reset, ActionError> {
        value(self.machine(Verb::Apply, "Firmware", (cluster, node), json!({}), stamp).await?)
    }
}
