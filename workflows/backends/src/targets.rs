//! The target file: the backend of each cluster, region, key store and hook.
//!
//! The simulator serves everything that the file does not name. Invariant: a file with an error is rejected as a whole,
//! and the server does not start.

#[cfg(test)]
mod tests;

use crate::TargetError;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// A kind of backend with its settings: one entry, whose key is the kind's name.
pub(super) type BackendSettings = BTreeMap<String, Value>;

/// The parsed target file. [`Targets::connect`] parses the settings of each target.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Targets {
    /// Backends by the cluster's name in the fleet: one or more of `kubernetes`, `slurm` and `agents`, or `simulated:
    /// {}`.
    pub(super) clusters: BTreeMap<String, BackendSettings>,
    /// The store of tenants' keys: `vault` or `pkcs11`.
    pub(super) keys: BackendSettings,
    /// The object store of each region: `s3`.
    pub(super) objects: BTreeMap<String, BackendSettings>,
    /// The backend of each machine's hardware, by cluster and node: `drives`.
    pub(super) machines: BTreeMap<String, BTreeMap<String, BackendSettings>>,
    /// Custom systems by name, which must be one of `SYSTEMS` in `kinds`.
    pub(super) systems: BTreeMap<String, SystemTarget>,
    /// Hooks by name: `exec` or `http`.
    pub(super) hooks: BTreeMap<String, BackendSettings>,
}

/// A custom system behind hooks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SystemTarget {
    /// The hook that changes it: `exec` or `http`.
    pub(super) hook: BackendSettings,
    /// The hook that reads it with its own credentials.
    pub(super) verifier: BackendSettings,
}

impl Targets {
    /// Reads a target file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or parsed; a parse error names the line.
    pub fn read(file: &Path) -> Result<Self, TargetError> {
        let wrong = |why: String| TargetError::new("", why).within(&file.display().to_string());
        let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
        Self::parse(&text).map_err(|error| error.within(&file.display().to_string()))
    }

    /// Parses targets from YAML.
    ///
    /// # Errors
    ///
    /// If the text is invalid; the error names the line.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        workflows::yaml::read(text).map_err(|e| TargetError::new("", e))
    }
}

/// Returns the single kind that is named, or `None`. Fails if there are several.
pub(super) fn one_of(at: &str, chosen: BackendSettings) -> Result<Option<(String, Value)>, TargetError> {
    if chosen.len() > 1 {
        let kinds: Vec<&str> = chosen.keys().map(String::as_str).collect();
        return Err(TargetError::new(
            at,
            format!("only one is allowed, but {} are set: keep one of them", kinds.join(" and ")),
        ));
    }
    Ok(chosen.into_iter().next())
}

/// Returns the single kind that is named. Fails for none or several.
pub(super) fn exactly_one(
    at: &str,
    chosen: BackendSettings,
    known: &[&str],
) -> Result<(String, Value), TargetError> {
    let nothing = || TargetError::new(at, format!("is empty: name one of {}", known.join(", ")));
    one_of(at, chosen)?.ok_or_else(nothing)
}
