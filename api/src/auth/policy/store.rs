//! The policies in force, read again when the file of the house has changed, and every text that was ever in force, kept.
//!
//! Invariant: at every moment there is one set in force that holds. A file that does not is told in the log, and changes nothing.

use super::AccessPolicy;
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};
use store::Timestamp;

/// More than this is no file of policies, in bytes.
const LONGEST: u64 = 1 << 20;

/// The policies that a house put into force, as they are kept for whoever asks later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccessPolicies {
    /// SHA-256 of all policies, the shipped ones with them.
    pub(crate) version: String,
    /// The house's own, as its file had them.
    pub(crate) text: String,
    /// The file.
    pub(crate) file: PathBuf,
    /// Since when.
    pub(crate) since: Timestamp,
}

impl Entity for AccessPolicies {
    const COLLECTION: &'static str = "access-policies";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.version.clone()
    }
}

/// What is in force.
#[derive(Debug)]
pub struct PolicyStore {
    file: Option<PathBuf>,
    stands: RwLock<InForce>,
}

#[derive(Debug)]
struct InForce {
    law: Arc<AccessPolicy>,
    /// The house's text, or why it could not be read, as it was looked at last, whether it was taken or not.
    seen: Result<String, String>,
    /// The house's text in force.
    text: String,
}

impl PolicyStore {
    /// The shipped policies with those of `file`, if one is named.
    ///
    /// # Errors
    /// Every mistake in it, a line each.
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

    /// Whether a house adds policies of its own.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// The policies in force.
    pub(crate) fn law(&self) -> Arc<AccessPolicy> {
        self.stands.read().unwrap_or_else(PoisonError::into_inner).law.clone()
    }

    /// The same, and what the house added with its file; `None` where it adds nothing.
    pub(crate) fn now(&self) -> (Arc<AccessPolicy>, Option<(PathBuf, String)>) {
        let stands = self.stands.read().unwrap_or_else(PoisonError::into_inner);
        (stands.law.clone(), self.file.clone().map(|file| (file, stands.text.clone())))
    }

    /// Takes over what the file says, if it is something else than before and holds. True if it was taken.
    ///
    /// # Errors
    /// What is wrong with it; told once for the same text.
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

    /// Takes over what the file says, and says in the log what is wrong with it. True if it was taken.
    pub(crate) fn look(&self) -> bool {
        self.renew().unwrap_or_else(|why| {
            tracing::error!(why, "the policies of access were not replaced: those before stay");
            false
        })
    }
}

/// The text of a file of policies.
///
/// # Errors
/// Why it cannot be read.
pub fn read(file: &Path) -> Result<String, String> {
    let problem = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
    let length = fs::metadata(file).map_err(problem)?.len();
    if length > LONGEST {
        return Err(format!("{} has {length} bytes; policies have {LONGEST} at most", file.display()));
    }
    fs::read_to_string(file).map_err(problem)
}

fn law(file: &Path, text: &str) -> Result<AccessPolicy, String> {
    AccessPolicy::of(Some((&file.display().to_string(), text))).map_err(|faults| faults.join("\n"))
}
