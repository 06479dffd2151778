//! The keys that authenticate the agents of a cluster. Only hashes are stored.

use crate::TargetError;
use serde::Deserialize;
use std::path::PathBuf;

/// The agents of a cluster, from the target file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentsTarget {
    /// Hashes of keys: the SHA-256 of each key's secret in hexadecimal, as `tenure agent key` prints it. Several keys
    /// allow a rotation node by node.
    pub keys: Vec<String>,
    /// A file with more hashes, one per line. It is read at each use, so that a key can be revoked without a restart.
    pub key_file: Option<PathBuf>,
}

/// The length of a hash in hexadecimal digits.
const DIGITS: usize = 64;

fn is_hash(text: &str) -> bool {
    text.len() == DIGITS && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
}

impl AgentsTarget {
    /// Returns the hashes that are valid now.
    ///
    /// # Errors
    ///
    /// A message if the file cannot be read. Then no agent is authenticated.
    pub fn hashes(&self) -> Result<Vec<String>, String> {
        let mut all = self.keys.clone();
        if let Some(file) = &self.key_file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            all.extend(lines.map(str::to_owned));
        }
        Ok(all)
    }

    /// Checks that there is at least one key and that each hash is valid.
    pub(crate) fn check(&self) -> Result<(), TargetError> {
        let hashes = self.hashes().map_err(|why| TargetError::new("key_file", why))?;
        if hashes.is_empty() && self.key_file.is_none() {
            return Err(TargetError::new("keys", "is empty: create a key with `tenure agent key`"));
        }
        if hashes.iter().all(|hash| is_hash(hash)) {
            return Ok(());
        }
        let field = if self.keys.iter().all(|hash| is_hash(hash)) { "key_file" } else { "keys" };
        let why = "has an invalid hash: write the 64 hexadecimal digits that `tenure agent key` prints, not the key itself";
        Err(TargetError::new(field, why))
    }
}
