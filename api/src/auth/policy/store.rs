//! The policies in force, reloaded when the operator's file changes. Every text that was in force is stored.
//!
//! Invariant: there is always one valid set of policies in force. An invalid file is logged, and changes nothing.

use super::AccessPolicy;
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};
use store::Timestamp;

/// The maximum size of a policy file, in bytes.
const LONGEST: u64 = 1 << 20;

/// A stored version of the operator's policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccessPolicies {
    /// SHA-256 of all policies, including the built-in ones.
    pub(crate) version: String,
    /// The text of the operator's file.
    pub(crate) text: String,
    /// The file.
    pub(crate) file: PathBuf,
    /// The time at which it took effect.
    pub(crate) since: Timestamp,
}

impl Entity for AccessPolicies {
    const COLLECTION: &'static str = "access-policies";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.version.clone()
    }
}

/// The present policies.
#[derive(Debug)]
pub struct PolicyStore {
    file: Option<PathBuf>,
    stands: RwLock<InForce>,
}

#[derive(Debug)]
struct InForce {
    law: Arc<AccessPolicy>,
    /// The operator's text, or the error of reading it, at the last check, even if it was invalid.
    seen: Result<String, String>,
    /// The operator's text in force.
    text: String,
}

impl PolicyStore {
    /// Loads the built-in policies with those of `file`, if one is given.
    ///
    /// # Errors
    /// Every error in it, one per line.
    pub fn open(file: &str) -> Result<Self, String> {
        if file.is_empty() {
            let stands =
                InForce { law: AccessPolicy::shipped(), seen: Ok(String::new()), text: String::new() };
            return Ok(Self { file: None, stands: RwLock::new(stands) });
        }
        let path = PathBuf::from(file);
        let named = |why: String| format!("access.policies: {why}");
        let text = read(&path).map_err(named)?;
        let law = Arc::new(law(&path, &text).map_err(named)?);
        let stands = RwLock::new(InForce { law, seen: Ok(text.clone()), text });
        Ok(Self { file: Some(path), stands })
    }

    /// Returns true if the operator has a policy file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the policies in force.
    pub(crate) fn law(&self) -> Arc<AccessPolicy> {
        self.stands.read().unwrap_or_else(PoisonError::into_inner).law.clone()
    }

    /// Returns the policies in force, with the operator's file and text; `None` without a file.
    pub(crate) fn now(&self) -> (Arc<AccessPolicy>, Option<(PathBuf, String)>) {
        let stands = self.stands.read().unwrap_or_else(PoisonError::into_inner);
        (stands.law.clone(), self.file.clone().map(|file| (file, stands.text.clone())))
    }

    /// Reloads the file if it has changed and is valid. Returns true if it was loaded.
    ///
    /// # Errors
    /// The errors of the file; reported once for the same text.
    pub(super) fn renew(&self) -> Result<bool, String> {
        let Some(file) = &self.file else { return Ok(false) };
        let seen = read(file);
        {
            let mut stands = self.stands.write().unwrap_or_else(PoisonError::into_inner);
            if stands.seen == seen {
                return Ok(false);
            }
            stands.seen.clone_from(&seen);
        }
        let text = seen?;
        let law = Arc::new(law(file, &text)?);
        let mut stands = self.stands.write().unwrap_or_else(PoisonError::into_inner);
        (stands.law, stands.text) = (law, text);
        Ok(true)
    }

    /// Reloads the file, and logs its errors. Returns true if it was loaded.
    pub(crate) fn look(&self) -> bool {
        self.renew().unwrap_or_else(|why| {
            tracing::error!(why, "the access policies were not replaced; the previous ones stay in force");
            false
        })
    }
}

/// Reads the text of a policy file.
///
/// # Errors
/// The error of reading it.
pub fn read(file: &Path) -> Result<String, String> {
    let problem = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
    let length = fs::metadata(file).map_err(problem)?.len();
    if length > LONGEST {
        return Err(format!("{} has {length} bytes; policies have at most {LONGEST}", file.display()));
    }
    fs::read_to_string(file).map_err(problem)
}

fn law(file: &Path, text: &str) -> Result<AccessPolicy, String> {
    AccessPolicy::of(Some((&file.display().to_string(), text))).map_err(|faults| faults.join("\n"))
}
