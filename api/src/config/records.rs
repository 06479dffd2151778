//! What is kept of executions: when the audit is signed, how long finished ones stay, and whether records are sealed.

use super::{ConfigDuration, RetentionPeriod};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// When the audit is signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// After so many entries a checkpoint is signed. Default 1000.
    pub checkpoint_entries: u64,
    /// After so long a checkpoint is signed, if anything was sealed. Default `1m`.
    pub checkpoint_every: ConfigDuration,
}

impl Default for Audit {
    fn default() -> Self {
        Self { checkpoint_entries: 1_000, checkpoint_every: ConfigDuration(Duration::from_secs(60)) }
    }
}

impl Audit {
    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.checkpoint_entries == 0 {
            return Err("audit.checkpoint_entries: 0 would sign nothing; use at least 1".into());
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
    /// From the end of an execution on; a span, or `never` to forget none. Default `never`.
    pub after: RetentionPeriod,
    /// The same for executions of a workflow, by its name; only in the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, RetentionPeriod>,
}

impl Retention {
    /// # Errors
    /// The key at fault, and what to write.
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

/// Whether records are sealed, with what, and where the keys are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncryptionSettings {
    /// A file with the platform's key, of 64 hexadecimal digits: it wraps the record keys. Default none: records are not sealed.
    pub key_file: String,
    /// The key that wrapped them before, to be wrapped anew by the other. Default none.
    pub earlier_key_file: String,
    /// The folder of the record keys. Default `record-keys` in the data folder.
    pub keys: String,
}

impl EncryptionSettings {
    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.key_file.is_empty() && !(self.earlier_key_file.is_empty() && self.keys.is_empty()) {
            return Err(
                "seal.key_file: name the file of the platform's key, or leave all of `seal` out".into()
            );
        }
        Ok(())
    }
}
