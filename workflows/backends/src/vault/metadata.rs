//! Metadata of a key: its tenant, the step that created it, and a ciphertext for later tests.

use crate::connection_settings;
use crate::vault::{
    Vault,
    client::{Answer, TokenOf},
};
use engine::ActionError;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, codes};

/// The owner label of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyMetadata {
    pub(super) tenant: String,
    pub(super) step: String,
    pub(super) epoch: u64,
    pub(super) uid: String,
    /// A random value, encrypted with the key.
    pub(super) canary: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    custom_metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Listed {
    keys: Vec<String>,
}

impl KeyMetadata {
    pub(super) fn new(tenant: &str, stamp: &CallMetadata) -> Self {
        let (tenant, step) = (tenant.to_owned(), stamp.step.clone());
        // Together with the creation time in seconds, this identifies the key.
        let uid = connection_settings::derived_id(&[&tenant, &step, &stamp.epoch.0.to_string()]);
        Self { tenant, step, epoch: stamp.epoch.0, uid, canary: None }
    }

    /// Rejects a call of the creating step with an older epoch.
    pub(super) fn fence(&self, name: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        if self.step != stamp.step || self.epoch <= stamp.epoch.0 {
            return Ok(());
        }
        let why = format!(
            "key {name} was created with epoch {}, but the call has epoch {}",
            self.epoch, stamp.epoch.0
        );
        Err(ActionError::permanent(codes::FENCED, why))
    }

    fn written(&self) -> BTreeMap<&'static str, String> {
        let mut written = BTreeMap::from([
            ("tenant", self.tenant.clone()),
            ("step", self.step.clone()),
            ("epoch", self.epoch.to_string()),
            ("uid", self.uid.clone()),
        ]);
        written.extend(self.canary.clone().map(|canary| ("canary", canary)));
        written
    }

    fn read(written: &BTreeMap<String, String>) -> Option<Self> {
        let text = |name: &str| written.get(name).cloned();
        Some(Self {
            tenant: text("tenant")?,
            step: text("step").unwrap_or_default(),
            epoch: text("epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
            uid: text("uid").unwrap_or_default(),
            canary: text("canary"),
        })
    }
}

impl Vault {
    fn mark_path(&self, name: &str) -> String {
        format!("{}/metadata/{}/{name}", self.target.marks_mount, self.target.marks_path)
    }

    pub(super) async fn mark(
        &self,
        name: &str,
        who: TokenOf,
        until: Instant,
    ) -> Result<Option<KeyMetadata>, ActionError> {
        match self.client.send(Method::GET, &self.mark_path(name), None, who, until).await {
            Ok(answer) => Ok(answer.data::<Metadata>()?.custom_metadata.as_ref().and_then(KeyMetadata::read)),
            Err(refused) if refused.absent() => Ok(None),
            Err(refused) => Err(refused.error),
        }
    }

    pub(super) async fn set_mark(
        &self,
        name: &str,
        mark: &KeyMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let body = json!({ "custom_metadata": mark.written() });
        self.client.send(Method::POST, &self.mark_path(name), Some(body), TokenOf::Platform, until).await?;
        Ok(())
    }

    pub(super) async fn forget_mark(&self, name: &str, until: Instant) -> Result<(), ActionError> {
        self.client.send(Method::DELETE, &self.mark_path(name), None, TokenOf::Platform, until).await?;
        Ok(())
    }

    /// Returns the names of all keys.
    pub(super) async fn names(&self, who: TokenOf, until: Instant) -> Result<Vec<String>, ActionError> {
        let path = format!("{}/keys?list=true", self.target.mount);
        match self.client.send(Method::GET, &path, None, who, until).await {
            Ok(answer) => Answer::data::<Listed>(&answer).map(|listed| listed.keys),
            Err(refused) if refused.absent() => Ok(Vec::new()),
            Err(refused) => Err(refused.error),
        }
    }
}
