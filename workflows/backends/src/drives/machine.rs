//! Implements the hardware capability of a machine: drives by this backend, everything else by hooks.

use crate::drives::{discovery, erase, sampling, settings::DrivesTarget, tools::Tools};
use crate::{
    TargetError,
    exec::Program,
    hooks::{HookBackend, HookRegistry},
    http_response,
};
use async_trait::async_trait;
use engine::ActionError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::{
    CallMetadata, Devices, Drive, DriveTechnique, Environment, FilledGpu, Hook, Hooks, Machines, Observer,
    Reset, Samples, SanitiseLog, Segment, codes,
};

/// A machine and its drives.
#[derive(Debug)]
pub struct LocalMachine {
    pub(super) cluster: String,
    pub(super) node: String,
    pub(super) target: DrivesTarget,
    hooks: HookRegistry,
}

impl LocalMachine {
    /// Creates the machine from its settings, with its names in workflows. Runs no program.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix.
    pub fn connect(cluster: &str, node: &str, target: DrivesTarget) -> Result<Self, TargetError> {
        target.check()?;
        let mut hooks: BTreeMap<String, Arc<dyn HookBackend>> = BTreeMap::new();
        for (name, program) in &target.hooks {
            hooks.insert(name.clone(), Arc::new(Program::connect(program)?));
        }
        let hooks = HookRegistry::new(hooks, None);
        Ok(Self { cluster: cluster.to_owned(), node: node.to_owned(), target, hooks })
    }

    pub(super) fn place(&self) -> String {
        format!("node {} of cluster {}", self.node, self.cluster)
    }

    /// Returns the drives with their current state.
    ///
    /// # Errors
    ///
    /// If one drive cannot be read or identified; then no drive is returned.
    pub async fn drives(&self, stamp: &CallMetadata) -> Result<Vec<Drive>, ActionError> {
        let tools = Tools::of(&self.target, Observer::Platform, stamp);
        let tool = erase::tool(&tools).await?;
        let mut drives = Vec::new();
        for device in discovery::drives(&tools).await? {
            drives.push(erase::describe(&tools, &device, &tool).await?);
        }
        Ok(drives)
    }

    /// Fails if the call is for another machine.
    fn is_meant(&self, cluster: &str, node: &str) -> Result<(), ActionError> {
        if (cluster, node) == (&self.cluster, &self.node) {
            return Ok(());
        }
        let why = format!("the call is for node {node} of cluster {cluster}, but this is {}", self.place());
        Err(ActionError::permanent(codes::REFUSED, why))
    }

    /// Calls a hook of this machine.
    async fn hook(
        &self,
        (cluster, node): (&str, &str),
        name: &str,
        more: Value,
        stamp: &CallMetadata,
    ) -> Result<Value, ActionError> {
        self.is_meant(cluster, node)?;
        if !self.target.hooks.contains_key(name) {
            let why = format!(
                "{} has no hook `{name}`: set a program in `hooks.{name}` of its settings",
                self.place()
            );
            return Err(ActionError::permanent(codes::UNSUPPORTED, why));
        }
        let mut arguments = json!({ "cluster": cluster, "node": node });
        if let (Some(all), Value::Object(more)) = (arguments.as_object_mut(), more) {
            all.extend(more);
        }
        let hook = Hook { name: name.to_owned(), tenant: String::new(), arguments };
        self.hooks.run(&hook, stamp).await
    }
}

/// Parses the output of a hook.
fn read<T: DeserializeOwned>(name: &str, said: Value, changing: bool) -> Result<T, ActionError> {
    serde_json::from_value(said)
        .map_err(|error| http_response::unreadable(format!("the output of hook {name}: {error}"), changing))
}

#[async_trait]
impl Machines for LocalMachine {
    fn backend(&self) -> &'static str {
        "drives"
    }

    fn is_simulated(&self, _: &str, _: &str) -> bool {
        false
    }

    async fn devices(
        &self,
        cluster: &str,
        node: &str,
        gpus: u64,
        stamp: &CallMetadata,
    ) -> Result<Devices, ActionError> {
        let said = self.hook((cluster, node), "describe", json!({ "gpus": gpus }), stamp).await?;
        let mut said = said;
        if let Some(fields) = said.as_object_mut() {
            // Drives are always read from the hardware, whatever the hook reports.
            fields.insert("drives".into(), json!([]));
        }
        let devices: Devices = read("describe", said, false)?;
        Ok(Devices { drives: self.drives(stamp).await?, ..devices })
    }

    async fn set_network(
        &self,
        cluster: &str,
        node: &str,
        to: Segment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.hook((cluster, node), "connect", json!({ "to": to }), stamp).await.map(drop)
    }

    async fn boot(
        &self,
        cluster: &str,
        node: &str,
        into: Environment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.hook((cluster, node), "boot", json!({ "into": into }), stamp).await.map(drop)
    }

    async fn scrub_gpu(
        &self,
        cluster: &str,
        node: &str,
        uuid: &str,
        reset: bool,
        stamp: &CallMetadata,
    ) -> Result<FilledGpu, ActionError> {
        let wanted = json!({ "uuid": uuid, "reset": reset });
        read("scrub_gpu", self.hook((cluster, node), "scrub_gpu", wanted, stamp).await?, true)
    }

    async fn sanitise(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        technique: DriveTechnique,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.is_meant(cluster, node)?;
        erase::begin(&Tools::of(&self.target, Observer::Platform, stamp), serial, technique, stamp).await
    }

    async fn sanitize_log(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        stamp: &CallMetadata,
    ) -> Result<SanitiseLog, ActionError> {
        self.is_meant(cluster, node)?;
        erase::log(&Tools::of(&self.target, Observer::Platform, stamp), serial).await
    }

    async fn sample_sectors(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        seed: &str,
        stamp: &CallMetadata,
    ) -> Result<Samples, ActionError> {
        self.is_meant(cluster, node)?;
        sampling::sample(&Tools::of(&self.target, Observer::Verifier, stamp), serial, seed).await
    }

    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<Reset, ActionError> {
        read("reset", self.hook((cluster, node), "reset", json!({}), stamp).await?, true)
    }
}
