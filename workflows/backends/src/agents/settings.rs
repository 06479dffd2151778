//! The keys by which the agents of a cluster are known. Only their hashes are here.

use crate::TargetError;
use serde::Deserialize;
use std::path::PathBuf;

/// The agents of a cluster, as the file of targets names them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentsTarget {
    /// Hashes of keys, each the SHA-256 of a key's secret in hexadecimal, as `tenure agent key` prints it. Several, so that keys can
    /// be changed one node after the other.
    pub keys: Vec<String>,
    /// A file with more of them, one a line; read at each use, so that a key is taken back without a restart.
    pub key_file: Option<PathBuf>,
}

/// How many hexadecimal digits a hash has.
const DIGITS: usize = 64;

fn is_hash(text: &str) -> bool {
    text.len() == DIGITS && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
}

impl AgentsTarget {
    /// The hashes that hold now.
    ///
    /// # Errors
    /// In words, that the file cannot be read: nobody is let in by what is not known.
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

    /// That there is a key, and that each is one.
    pub(crate) fn check(&self) -> Result<(), TargetError> {
        let hashes = self.hashes().map_err(|why| TargetError::new("key_file", why))?;
        if hashes.is_empty() && self.key_file.is_none() {
            return Err(TargetError::new("keys", "names none: print one with `tenure agent key`"));
        }
        if hashes.iter().all(|hash| is_hash(hash)) {
            return Ok(());
        }
        let field = if self.keys.iter().all(|hash| is_hash(hash)) { "key_file" } else { "keys" };
        let why = "has what is no hash: write the 64 hexadecimal digits that `tenure agent key` prints, and not the key itself";
        Err(TargetError::new(field, why))
    }
}
