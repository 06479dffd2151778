//! Records: audit checkpoints, retention of finished executions, and encryption at rest.

use super::{ConfigDuration, RetentionPeriod};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// When audit checkpoints are signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// A checkpoint is signed after this many entries. Default 1000.
    pub checkpoint_entries: u64,
    /// A checkpoint is signed after this time, if there are new entries. Default `1m`.
    pub checkpoint_every: ConfigDuration,
}

impl Default for Audit {
    fn default() -> Self {
        Self { checkpoint_entries: 1_000, checkpoint_every: ConfigDuration(Duration::from_secs(60)) }
    }
}

impl Audit {
    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.checkpoint_entries == 0 {
            return Err("audit.checkpoint_entries: 0 is not allowed; use at least 1".into());
        }
        if self.checkpoint_every.0 < Duration::from_secs(1) {
            return Err("audit.checkpoint_every: use at least `1s`".into());
        }
        Ok(())
    }
}

/// How long finished executions are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// The period after the end of an execution; a duration, or `never` to keep all. Default `never`.
    pub after: RetentionPeriod,
    /// The period for executions of a workflow, by its name; only in the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, RetentionPeriod>,
}

impl Retention {
    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        let kept = self.workflows.iter().map(|(name, kept)| (format!("workflows.{name}"), *kept));
        for (key, kept) in kept.chain([("after".into(), self.after)]) {
            if kept.0.is_some_and(|span| span < Duration::from_secs(1)) {
                return Err(format!("retention.{key}: use at least `1s`, or `never`"));
            }
        }
        Ok(())
    }
}

/// Encryption at rest: the key, and the folder of record keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncryptionSettings {
    /// A file with the platform's key, of 64 hexadecimal digits, which wraps the record keys. Default: none, no encryption.
    pub key_file: String,
    /// A file with the previous platform key, to wrap the record keys again with the new one. Default: none.
    pub earlier_key_file: String,
    /// The folder of the record keys. Default `record-keys` in the data folder.
    pub keys: String,
}

impl EncryptionSettings {
    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.key_file.is_empty() && !(self.earlier_key_file.is_empty() && self.keys.is_empty()) {
            return Err(
                "seal.key_file: set the file of the platform's key, or remove the section `seal`".into()
            );
        }
        Ok(())
    }
}
