//! The file of targets: which backend serves which cluster, region, key store and hook.
//!
//! What the file does not name is served by the simulator. Invariant: a file with any mistake serves nothing; the server does
//! not start with half of it.

#[cfg(test)]
mod tests;

use crate::TargetError;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// A kind of backend with its settings: one key, the kind's name.
pub(super) type BackendSettings = BTreeMap<String, Value>;

/// The file of targets, as written. [`Targets::connect`] reads the settings of each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Targets {
    /// By the name of the cluster in the fleet: what serves it, of `kubernetes`, `slurm` and `agents` one or more; or
    /// `simulated: {}`.
    pub(super) clusters: BTreeMap<String, BackendSettings>,
    /// What keeps tenants' keys: `vault` or `pkcs11`.
    pub(super) keys: BackendSettings,
    /// By region: what keeps buckets, `s3`.
    pub(super) objects: BTreeMap<String, BackendSettings>,
    /// By cluster and node: what serves a machine as hardware, `drives`.
    pub(super) machines: BTreeMap<String, BTreeMap<String, BackendSettings>>,
    /// By name, one of `SYSTEMS` of the kinds: the hook that serves a system of the house.
    pub(super) systems: BTreeMap<String, SystemTarget>,
    /// By name: what stands behind a hook, `exec` or `http`.
    pub(super) hooks: BTreeMap<String, BackendSettings>,
}

/// A system of the house.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SystemTarget {
    /// What changes it, `exec` or `http`.
    pub(super) hook: BackendSettings,
    /// What looks at it with credentials of its own.
    pub(super) verifier: BackendSettings,
}

impl Targets {
    /// The targets of this file.
    ///
    /// # Errors
    /// That it cannot be read, with its line where it is not as it should be.
    pub fn read(file: &Path) -> Result<Self, TargetError> {
        let wrong = |why: String| TargetError::new("", why).within(&file.display().to_string());
        let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
        Self::parse(&text).map_err(|error| error.within(&file.display().to_string()))
    }

    /// The targets of this text, as YAML.
    ///
    /// # Errors
    /// What is not as it should be, with its line.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        workflows::yaml::read(text).map_err(|e| TargetError::new("", e))
    }
}

/// The one kind that is named, if any is.
pub(super) fn one_of(at: &str, chosen: BackendSettings) -> Result<Option<(String, Value)>, TargetError> {
    if chosen.len() > 1 {
        let kinds: Vec<&str> = chosen.keys().map(String::as_str).collect();
        return Err(TargetError::new(
            at,
            format!("{} are more than one: keep one of them", kinds.join(" and ")),
        ));
    }
    Ok(chosen.into_iter().next())
}

/// The one kind that is named.
pub(super) fn exactly_one(
    at: &str,
    chosen: BackendSettings,
    known: &[&str],
) -> Result<(String, Value), TargetError> {
    let nothing = || TargetError::new(at, format!("says nothing: name one of {}", known.join(", ")));
    one_of(at, chosen)?.ok_or_else(nothing)
}
