//! Implements the capabilities other than Kubernetes with a simulated platform.

mod hooks;
mod kubernetes;
mod tenant_resources;
mod workloads;

use crate::simulated::{Request, Response, System, Verb, World, state::recovery};
use async_trait::async_trait;
use engine::ActionError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use workflows::platform::{
    Associations, Bucket, CallMetadata, Diagnosis, DiagnosisLevel, FieldSwap, FoundObject, GpuHealth,
    GpuLayout, Gpus, Identity, KeySafety, Keys, Objects, ProbeFinding, Slurm, WayBack, codes, tenant_name,
};

/// The backend name of all simulated capabilities.
pub(super) const SIMULATED: &str = "simulated";
const LAYOUT: &str = crate::simulated::state::objects::LAYOUT;
const ACCOUNT: &str = "Account";
const KEY: &str = "Key";
const BUCKET: &str = "Bucket";
const GROUPS: &str = "Groups";
const CREDENTIALS: &str = "Credentials";

/// Implements all capabilities with one simulated platform.
#[derive(Clone, Debug)]
pub struct Simulated {
    world: Arc<dyn World>,
}

/// A call and its object.
pub(super) struct Call<'a> {
    pub(super) system: System,
    pub(super) cluster: &'a str,
    pub(super) verb: Verb,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) tenant: &'a str,
    pub(super) spec: Value,
    pub(super) uid: Option<&'a str>,
}

impl<'a> Call<'a> {
    pub(super) fn new(system: System, cluster: &'a str, verb: Verb, kind: &'a str, name: &'a str) -> Self {
        Self { system, cluster, verb, kind, name, tenant: "", spec: Value::Null, uid: None }
    }

    pub(super) fn of(self, tenant: &'a str) -> Self {
        Self { tenant, ..self }
    }

    pub(super) fn with(self, spec: Value) -> Self {
        Self { spec, ..self }
    }

    pub(super) fn only(self, uid: &'a str) -> Self {
        Self { uid: Some(uid), ..self }
    }
}

impl Simulated {
    /// Creates the capabilities of a simulated platform.
    #[must_use]
    pub fn new(world: Arc<dyn World>) -> Self {
        Self { world }
    }

    pub(super) async fn send(&self, ask: Call<'_>, stamp: &CallMetadata) -> Result<Response, ActionError> {
        let request = Request {
            action: stamp.action.to_owned(),
            step: stamp.step.clone(),
            key: stamp.key.clone(),
            epoch: stamp.epoch.0,
            deadline_ms: u64::try_from(stamp.deadline.as_millis()).unwrap_or(u64::MAX),
            system: ask.system,
            cluster: ask.cluster.to_owned(),
            verb: ask.verb,
            kind: ask.kind.to_owned(),
            name: ask.name.to_owned(),
            tenant: ask.tenant.to_owned(),
            spec: ask.spec,
            precondition_uid: ask.uid.map(ToOwned::to_owned),
            dry_run: stamp.dry_run,
        };
        self.world.call(request).await
    }
}

/// Returns the object that the answer to a creation must contain.
pub(super) fn found(response: Response) -> Result<FoundObject, ActionError> {
    response.found.ok_or_else(|| ActionError::unknown(codes::UNREADABLE, "the answer holds no object"))
}

/// Parses the value of an answer.
pub(super) fn value<T: DeserializeOwned>(response: Response) -> Result<T, ActionError> {
    decode(response.value)
}

fn decode<T: DeserializeOwned>(value: Value) -> Result<T, ActionError> {
    serde_json::from_value(value).map_err(|e| ActionError::permanent(codes::UNREADABLE, e))
}

/// Reads how the material of a simulated key can have left its store, from flags in its spec. Null means an unknown
/// flag.
pub(super) fn key_safety(spec: &Value) -> KeySafety {
    let flags = [
        ("imported", WayBack::Imported),
        ("restored", WayBack::Restored),
        ("backed_up", WayBack::BackedUp),
        ("allow_plaintext_backup", WayBack::BackupAllowed),
        ("exportable", WayBack::Exportable),
    ];
    let holds = flags.map(|(flag, way)| (spec.get(flag) == Some(&Value::Bool(true)), way));
    let silent = flags.iter().any(|(flag, _)| spec.get(flag).is_some_and(Value::is_null));
    KeySafety::of(holds.into_iter().chain([(silent, WayBack::Unknown)]))
}

#[async_trait]
impl Slurm for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn create_account(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        associations: &Associations,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let ask = Call::new(System::Slurm, cluster, Verb::Apply, ACCOUNT, name).of(tenant);
        found(self.send(ask.with(json!({ "jobs": 0, "associations": associations })), stamp).await?)
    }

    async fn account(
        &self,
        cluster: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        Ok(self.send(Call::new(System::Slurm, cluster, Verb::Read, ACCOUNT, name), stamp).await?.found)
    }

    async fn compare_and_set(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let ask = Call::new(System::Slurm, cluster, Verb::Swap, ACCOUNT, name).of(tenant);
        found(self.send(ask.with(json!(swap)), stamp).await?)
    }

    async fn delete_account(
        &self,
        cluster: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let ask = Call::new(System::Slurm, cluster, Verb::Delete, ACCOUNT, name).only(&found.uid);
        self.send(ask, stamp).await.map(drop)
    }
}

#[async_trait]
impl Gpus for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn layout(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuLayout, ActionError> {
        value(self.send(Call::new(System::Gpus, cluster, Verb::Read, LAYOUT, node), stamp).await?)
    }

    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let ask = Call::new(System::Gpus, cluster, Verb::Apply, LAYOUT, node);
        self.send(ask.with(json!({ "profile": profile })), stamp).await.map(drop)
    }

    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: DiagnosisLevel,
        stamp: &CallMetadata,
    ) -> Result<Diagnosis, ActionError> {
        let ask = Call::new(System::Gpus, cluster, Verb::Check, "Diagnosis", node);
        value(self.send(ask.with(json!({ "level": level })), stamp).await?)
    }

    async fn health(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuHealth, ActionError> {
        let ask = Call::new(System::Gpus, cluster, Verb::Check, recovery::HEALTH, node);
        value(self.send(ask.with(json!({})), stamp).await?)
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.send(Call::new(System::Gpus, cluster, Verb::Run, recovery::RESET, node), stamp).await.map(drop)
    }

    async fn reboot(
        &self,
        cluster: &str,
        node: &str,
        boot: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let ask = Call::new(System::Gpus, cluster, Verb::Run, recovery::REBOOT, node);
        self.send(ask.with(json!({ "boot": boot })), stamp).await.map(drop)
    }
}

#[async_trait]
impl Keys for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn create(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let spec = json!({ "type": "aes256-gcm96", "exportable": false, "allow_plaintext_backup": false });
        let ask = Call::new(System::Keys, "", Verb::Apply, KEY, name).of(tenant).with(spec);
        self.send(ask, stamp).await.map(drop)
    }

    async fn read(
        &self,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, KeySafety)>, ActionError> {
        let there = self.send(Call::new(System::Keys, "", Verb::Read, KEY, name), stamp).await?.found;
        Ok(there.map(|found| (found.clone(), key_safety(&found.spec))))
    }

    async fn destroy(
        &self,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let ask = Call::new(System::Keys, "", Verb::Delete, KEY, name).only(&found.uid);
        self.send(ask, stamp).await.map(drop)
    }

    async fn probe_isolation(&self, tenant: &str, stamp: &CallMetadata) -> Result<ProbeFinding, ActionError> {
        let name = tenant_name(tenant)?;
        let ask = Call::new(System::Keys, "", Verb::Check, "foreign_key", &name).of(tenant);
        value(self.send(ask, stamp).await?)
    }
}

#[async_trait]
impl Objects for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn create(
        &self,
        bucket: &Bucket,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let spec = json!({
            "name": bucket.name, "region": bucket.region, "key": bucket.key, "versioned": bucket.versioned,
        });
        let ask = Call::new(System::Objects, &bucket.region, Verb::Apply, BUCKET, &bucket.name).of(tenant);
        found(self.send(ask.with(spec), stamp).await?)
    }

    async fn read(
        &self,
        region: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, Bucket)>, ActionError> {
        let there =
            self.send(Call::new(System::Objects, region, Verb::Read, BUCKET, name), stamp).await?.found;
        there.map(|found| Ok((found.clone(), decode(found.spec)?))).transpose()
    }

    async fn delete(
        &self,
        region: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let ask = Call::new(System::Objects, region, Verb::Delete, BUCKET, name).only(&found.uid);
        self.send(ask, stamp).await.map(drop)
    }
}

#[async_trait]
impl Identity for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn create(
        &self,
        name: &str,
        tenant: &str,
        groups: &[String],
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let ask = Call::new(System::Identity, "", Verb::Apply, GROUPS, name).of(tenant);
        found(self.send(ask.with(json!({ "groups": groups })), stamp).await?)
    }

    async fn read(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        Ok(self.send(Call::new(System::Identity, "", Verb::Read, GROUPS, name), stamp).await?.found)
    }

    async fn delete(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError> {
        let ask = Call::new(System::Identity, "", Verb::Delete, GROUPS, name).only(&found.uid);
        self.send(ask, stamp).await.map(drop)
    }

    async fn publish(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let ask = Call::new(System::Identity, "", Verb::Apply, CREDENTIALS, name).of(tenant);
        self.send(ask.with(json!({ "fetched": false })), stamp).await.map(drop)
    }

    async fn published(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        Ok(self.send(Call::new(System::Identity, "", Verb::Read, CREDENTIALS, name), stamp).await?.found)
    }

    async fn revoke(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError> {
        let ask = Call::new(System::Identity, "", Verb::Delete, CREDENTIALS, name).only(&found.uid);
        self.send(ask, stamp).await.map(drop)
    }
}
