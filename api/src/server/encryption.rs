//! Encryption at rest, if configured: the platform's key, the folder of record keys, and the encrypted store.

use crate::config::{Config, EncryptionSettings};
use backends::record_keys::{PLATFORM_KEY_WORKFLOWS, RecordKeys};
use engine::SystemClock;
use program::exit::{Exit, Failure};
use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};
use store::{
    Store,
    encrypted::{Encrypted, KeyFolder, Secret, is_encrypted},
    paged::paged,
};
use workflows::platform::Platform;

/// The store for the engine, and the destroyer of record keys, if any.
pub(crate) struct StoreWithKeys {
    pub(crate) store: Arc<dyn Store>,
    records: Option<RecordKeys>,
}

impl StoreWithKeys {
    /// Wraps `store` with encryption, if configured.
    ///
    /// # Errors
    /// An invalid setting; an encrypted store without a configured key; keys that do not decrypt.
    pub(crate) async fn of(config: &Config, store: Arc<dyn Store>) -> Result<Self, Failure> {
        let used = is_encrypted(&*store).await?;
        let Some(wrapping) = secret("seal.key_file", &config.seal.key_file)? else {
            return if used { Err(missing_key()) } else { Ok(Self { store, records: None }) };
        };
        let earlier = secret("seal.earlier_key_file", &config.seal.earlier_key_file)?;
        let dir = config.seal.keys_in(&config.data);
        let opened = tokio::task::spawn_blocking(move || {
            KeyFolder::open(&dir, wrapping, &earlier.into_iter().collect::<Vec<_>>(), used)
        });
        let keys = Arc::new(opened.await.map_err(Failure::other)?.map_err(cannot_open)?);
        let store = paged(Arc::new(Encrypted::new(store, keys.clone(), PLATFORM_KEY_WORKFLOWS)));
        let records = RecordKeys { store: store.clone(), keys, clock: Arc::new(SystemClock) };
        Ok(Self { store, records: Some(records) })
    }

    /// Adds the destruction of record keys to the platform, if there are any.
    pub(crate) fn before(self, platform: Platform) -> Platform {
        match self.records {
            Some(records) => platform.with_records(Arc::new(records)),
            None => platform,
        }
    }
}

impl EncryptionSettings {
    /// Returns the folder of record keys.
    fn keys_in(&self, data: &Path) -> std::path::PathBuf {
        if self.keys.is_empty() { data.join("record-keys") } else { self.keys.clone().into() }
    }
}

fn missing_key() -> Failure {
    let why = "configuration: seal.key_file: the records of this store are encrypted; set the file of the platform's key";
    Failure::new(Exit::Usage, why)
}

fn cannot_open(error: store::Error) -> Failure {
    match error {
        store::Error::Refused { why } => Failure::new(Exit::Usage, format!("configuration: seal: {why}")),
        other => other.into(),
    }
}

/// Reads the secret from the file of a setting; `None` without a file.
fn secret(setting: &str, file: &str) -> Result<Option<Secret>, Failure> {
    if file.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| Failure::new(Exit::Usage, format!("configuration: {setting}: {file}: {why}"));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let open = std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    if open {
        tracing::warn!(file, "the file of the platform's key is readable for other users: run chmod 600");
    }
    let short =
        || wrong("does not have 64 hexadecimal digits; create one with `openssl rand -hex 32`".into());
    Secret::from_hex(&text).map(Some).ok_or_else(short)
}
