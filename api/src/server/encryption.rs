//! Sealed records, where the settings ask for them: the platform's key, the folder of record keys, and the store before the store.

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

/// The store as the engine is to use it, and what destroys record keys, if there are any.
pub(crate) struct StoreWithKeys {
    pub(crate) store: Arc<dyn Store>,
    records: Option<RecordKeys>,
}

impl StoreWithKeys {
    /// `store` as it is, or sealed as the settings say.
    ///
    /// # Errors
    /// A setting that is wrong, by its name; a store that is sealed where the settings have no key; keys that do not open.
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

    /// The platform, which can destroy record keys if there are any.
    pub(crate) fn before(self, platform: Platform) -> Platform {
        match self.records {
            Some(records) => platform.with_records(Arc::new(records)),
            None => platform,
        }
    }
}

impl EncryptionSettings {
    /// Where the record keys are.
    fn keys_in(&self, data: &Path) -> std::path::PathBuf {
        if self.keys.is_empty() { data.join("record-keys") } else { self.keys.clone().into() }
    }
}

fn missing_key() -> Failure {
    let why = "configuration: seal.key_file: the records of this store are sealed; name the file of the platform's key";
    Failure::new(Exit::Usage, why)
}

fn cannot_open(error: store::Error) -> Failure {
    match error {
        store::Error::Refused { why } => Failure::new(Exit::Usage, format!("configuration: seal: {why}")),
        other => other.into(),
    }
}

/// The secret in the file that a setting names; `None` if it names none.
fn secret(setting: &str, file: &str) -> Result<Option<Secret>, Failure> {
    if file.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| Failure::new(Exit::Usage, format!("configuration: {setting}: {file}: {why}"));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let open = std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    if open {
        tracing::warn!(file, "the platform's key can be read by others than its owner: chmod 600 it");
    }
    let short = || wrong("holds no 64 hexadecimal digits; make one with `openssl rand -hex 32`".into());
    Secret::from_hex(&text).map(Some).ok_or_else(short)
}
