//! Tenants' keys in Vault's transit engine. Keys are not exportable, and their destruction is final.
//!
//! Transit stores no labels, so each key has an entry in a key-value engine (version 2) with its tenant, the step that
//! created it, and the ciphertext of a random value. The ciphertext proves after the destruction that nothing decrypts
//! it. The entry is written before the key and remains after it. Invariant: a key counts as destroyed only if Vault
//! answers 404 without a message. A 404 with a message means that the engine does not exist.
//!
//! Vault has no idempotency keys, so calls read the state before they change it. See `docs/backends/keys.md` for
//! settings, permissions and the effects of Vault's behaviour.

mod client;
mod metadata;
mod settings;
mod tenant_resources;

pub use crate::vault::settings::VaultTarget;

use crate::vault::client::{Client, TokenOf};
use crate::vault::metadata::KeyMetadata;
use crate::{SettingError, connection_settings};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::{ActionError, Class};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::Instant;
use workflows::platform::{
    CallMetadata, FoundObject, KeySafety, Keys, ProbeFinding, WayBack, codes, tenant_name,
};

/// One Vault, or one namespace of it.
#[derive(Debug)]
pub struct Vault {
    target: VaultTarget,
    client: Client,
}

/// A key as transit describes it.
#[derive(Clone, Debug, Deserialize)]
struct Described {
    #[serde(rename = "type")]
    kind: String,
    exportable: bool,
    allow_plaintext_backup: bool,
    deletion_allowed: bool,
    latest_version: u64,
    /// The creation time of each version, in Unix seconds.
    keys: BTreeMap<String, i64>,
    /// Absent in Vault versions that cannot import keys.
    #[serde(default)]
    imported_key: Option<bool>,
    #[serde(default)]
    backup_info: Option<Value>,
    #[serde(default)]
    restore_info: Option<Value>,
    #[serde(default)]
    soft_deleted: bool,
}

impl Described {
    /// Returns how the key material can have left Vault. A key that was imported, backed up or restored was outside at
    /// some time, whatever its current flags: restoring a backup can clear them, and then only `restore_info` shows it.
    fn safety(&self) -> KeySafety {
        KeySafety::of([
            (self.imported_key == Some(true), WayBack::Imported),
            (self.restore_info.is_some(), WayBack::Restored),
            (self.backup_info.is_some(), WayBack::BackedUp),
            (self.allow_plaintext_backup, WayBack::BackupAllowed),
            (self.exportable, WayBack::Exportable),
            // The material of a managed key is in another key store.
            (self.imported_key.is_none() || self.kind == "managed_key", WayBack::Unknown),
        ])
    }

    /// Distinguishes keys with the same name by creation time and label.
    fn uid(&self, mark: Option<&KeyMetadata>) -> String {
        let made = self.keys.values().min().copied().unwrap_or(0);
        format!("{made}-{}", mark.map_or("unmarked", |mark| &mark.uid))
    }

    fn spec(&self) -> Value {
        json!({
            "type": self.kind, "exportable": self.exportable, "imported": self.imported_key,
            "allow_plaintext_backup": self.allow_plaintext_backup, "backed_up": self.backup_info.is_some(),
            "restored": self.restore_info.is_some(), "deletion_allowed": self.deletion_allowed,
            "latest_version": self.latest_version, KeySafety::FIELD: self.safety().can_come_back,
        })
    }
}

impl Vault {
    /// Creates the backend for `target`. Connects and reads tokens at the first call.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix.
    pub fn connect(target: &VaultTarget) -> Result<Self, SettingError> {
        target.check()?;
        let http = connection_settings::client(&target.endpoint, target.ca_file.as_deref())?;
        Ok(Self { client: Client::new(http, target), target: target.clone() })
    }

    fn key_path(&self, name: &str) -> String {
        format!("{}/keys/{name}", self.target.mount)
    }

    async fn described(
        &self,
        name: &str,
        who: TokenOf,
        until: Instant,
    ) -> Result<Option<Described>, ActionError> {
        match self.client.send(Method::GET, &self.key_path(name), None, who, until).await {
            Ok(answer) => answer.data().map(Some),
            Err(refused) if refused.absent() => Ok(None),
            Err(refused) => Err(refused.error),
        }
    }

    async fn found(
        &self,
        name: &str,
        who: TokenOf,
        until: Instant,
    ) -> Result<Option<(FoundObject, Described)>, ActionError> {
        let Some(key) = self.described(name, who, until).await? else { return Ok(None) };
        let mark = self.mark(name, who, until).await?;
        let found = FoundObject {
            uid: key.uid(mark.as_ref()),
            tenant: mark.as_ref().map(|mark| mark.tenant.clone()).unwrap_or_default(),
            step: mark.map(|mark| mark.step).unwrap_or_default(),
            spec: key.spec(),
            terminating: key.soft_deleted,
        };
        Ok(Some((found, key)))
    }

    async fn encrypt(&self, name: &str, plaintext: &str, until: Instant) -> Result<String, ActionError> {
        let path = format!("{}/encrypt/{name}", self.target.mount);
        let body = json!({ "plaintext": STANDARD.encode(plaintext) });
        let answer = self.client.send(Method::POST, &path, Some(body), TokenOf::Platform, until).await?;
        Ok(answer.data::<Encrypted>()?.ciphertext)
    }

    /// Decrypts a ciphertext with transit. Returns the plaintext or transit's error.
    async fn decrypt(
        &self,
        name: &str,
        ciphertext: &str,
        who: TokenOf,
        until: Instant,
    ) -> Result<String, client::Refused> {
        let path = format!("{}/decrypt/{name}", self.target.mount);
        let body = json!({ "ciphertext": ciphertext });
        let answer = self.client.send(Method::POST, &path, Some(body), who, until).await?;
        Ok(answer.data::<Decrypted>()?.plaintext)
    }

    /// Ensures that a ciphertext is stored, by which the destruction of the key can be proved.
    async fn keep_canary(&self, name: &str, mark: KeyMetadata, until: Instant) -> Result<(), ActionError> {
        if mark.canary.is_some() {
            return Ok(());
        }
        let canary = self.encrypt(name, &connection_settings::random_id(), until).await?;
        self.set_mark(name, &KeyMetadata { canary: Some(canary), ..mark }, until).await
    }

    async fn remove_key(
        &self,
        name: &str,
        uid: &str,
        keep_mark: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let until = Instant::now() + stamp.deadline;
        let mark = self.mark(name, TokenOf::Platform, until).await?;
        if let Some(key) = self.described(name, TokenOf::Platform, until).await? {
            let now = key.uid(mark.as_ref());
            if now != uid {
                let why = format!("key {name} is {now}, but was {uid}");
                return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
            }
            if let Some(mark) = &mark {
                mark.fence(name, stamp)?;
            }
            if stamp.dry_run {
                return Ok(());
            }
            // A soft-deleted key cannot encrypt.
            if let Some(mark) = mark.clone().filter(|_| keep_mark && !key.soft_deleted) {
                self.keep_canary(name, mark, until).await?;
            }
            self.delete_key(name, &key, until).await?;
        }
        if !keep_mark && !stamp.dry_run && mark.is_some() {
            self.forget_mark(name, until).await?;
        }
        Ok(())
    }

    /// Deletes the key permanently. Some Vault versions reject config changes of a soft-deleted key; then the result of
    /// the deletion counts.
    async fn delete_key(&self, name: &str, key: &Described, until: Instant) -> Result<(), ActionError> {
        let config = format!("{}/config", self.key_path(name));
        let body = json!({ "deletion_allowed": true });
        let allowed = self.client.send(Method::POST, &config, Some(body), TokenOf::Platform, until).await;
        let allowed = self.gone_is_fine(allowed);
        if !key.soft_deleted {
            allowed?;
        }
        let path = self.key_path(name);
        let deleted = self.client.send(Method::DELETE, &path, None, TokenOf::Platform, until).await;
        match self.gone_is_fine(deleted) {
            Err(error) if key.soft_deleted && error.class == Class::Permanent => {
                let why = format!(
                    "key {name} is softly deleted and can be restored, because its final deletion was refused: {}",
                    error.message
                );
                Err(ActionError::permanent(codes::KEY_SOFT_DELETED, why))
            }
            deleted => deleted,
        }
    }

    /// Accepts an error that the key is already gone: a concurrent call deleted it. Vault answers 400 with a message;
    /// callers read the state back in any case.
    fn gone_is_fine(&self, answered: Result<client::Answer, client::Refused>) -> Result<(), ActionError> {
        match answered {
            Err(refused) if !refused.says(&["no existing key named", "could not delete key; not found"]) => {
                Err(refused.error)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

#[derive(Deserialize)]
struct Encrypted {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Decrypted {
    plaintext: String,
}

#[async_trait]
impl Keys for Vault {
    fn backend(&self) -> &'static str {
        "vault"
    }

    async fn create(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let until = Instant::now() + stamp.deadline;
        let mark = self.mark(name, TokenOf::Platform, until).await?;
        if let Some(mark) = &mark {
            mark.fence(name, stamp)?;
        }
        let there = self.described(name, TokenOf::Platform, until).await?.is_some();
        if stamp.dry_run || (there && mark.is_none()) {
            return Ok(());
        }
        if let Some(mark) = mark.filter(|_| there) {
            return if mark.tenant == tenant { self.keep_canary(name, mark, until).await } else { Ok(()) };
        }
        // The label is written before the key, so that every key has one. If the process dies in between, the next call
        // writes it again.
        let mark = KeyMetadata::new(tenant, stamp);
        self.set_mark(name, &mark, until).await?;
        let body = json!({
            "type": "aes256-gcm96", "exportable": false, "allow_plaintext_backup": false,
        });
        self.client.send(Method::POST, &self.key_path(name), Some(body), TokenOf::Platform, until).await?;
        self.keep_canary(name, mark, until).await
    }

    async fn read(
        &self,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, KeySafety)>, ActionError> {
        let until = Instant::now() + stamp.deadline;
        let found = self.found(name, TokenOf::Platform, until).await?;
        Ok(found.map(|(found, key)| (found, key.safety())))
    }

    async fn destroy(
        &self,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.remove_key(name, &found.uid, !stamp.undo, stamp).await
    }

    async fn probe_isolation(&self, tenant: &str, stamp: &CallMetadata) -> Result<ProbeFinding, ActionError> {
        let (name, until) = (tenant_name(tenant)?, Instant::now() + stamp.deadline);
        let plaintext = connection_settings::random_id();
        let ciphertext = self.encrypt(&name, &plaintext, until).await?;
        let own = self.decrypt(&name, &ciphertext, TokenOf::Platform, until).await?;
        if own != STANDARD.encode(&plaintext) {
            let transcript = format!("decryption with key {name} did not return the encrypted content");
            return Ok(ProbeFinding { held: false, transcript });
        }
        let who = match self.target.outsider_token_file {
            Some(_) => "the outsider's token",
            None => "no token",
        };
        match self.decrypt(&name, &ciphertext, TokenOf::Outsider, until).await {
            Err(refused) if refused.denied() => Ok(ProbeFinding {
                held: true,
                transcript: format!(
                    "key {name} encrypted and decrypted; with {who} it was refused: {refused}"
                ),
            }),
            Ok(_) => {
                let transcript = format!("{who} could decrypt content of key {name}");
                Ok(ProbeFinding { held: false, transcript })
            }
            Err(refused) => Err(refused.error),
        }
    }
}
