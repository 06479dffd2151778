//! The policies in force, read again when the file of the house has changed, and every text that was ever in force, kept.
//!
//! Invariant: at every moment there is one set in force that holds. A file that does not is told in the log, and changes nothing.

use super::Law;
use crate::state::{App, Shared};
use engine::{Behalf, Entity, on_behalf};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use store::Timestamp;
use tokio::sync::watch;

/// How often it is looked whether the file says something else.
const EVERY: Duration = Duration::from_secs(2);
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

    fn id(&self) -> String {
        self.version.clone()
    }
}

/// What is in force.
#[derive(Debug)]
pub(crate) struct Book {
    file: Option<PathBuf>,
    stands: RwLock<Stands>,
}

#[derive(Debug)]
struct Stands {
    law: Arc<Law>,
    /// The house's text, or why it could not be read, as it was looked at last, whether it was taken or not.
    seen: Result<String, String>,
    /// The house's text in force.
    text: String,
}

impl Book {
    /// The shipped policies with those of `file`, if one is named.
    ///
    /// # Errors
    /// Every mistake in it, a line each.
    pub(crate) fn open(file: &str) -> Result<Self, String> {
        if file.is_empty() {
            let stands = Stands { law: Law::shipped(), seen: Ok(String::new()), text: String::new() };
            return Ok(Self { file: None, stands: RwLock::new(stands) });
        }
        let path = PathBuf::from(file);
        let named = |why: String| format!("access.policies: {why}");
        let text = read(&path).map_err(named)?;
        let law = Arc::new(law(&path, &text).map_err(named)?);
        let stands = RwLock::new(Stands { law, seen: Ok(text.clone()), text });
        Ok(Self { file: Some(path), stands })
    }

    /// The policies in force.
    pub(crate) fn law(&self) -> Arc<Law> {
        self.stands.read().unwrap_or_else(PoisonError::into_inner).law.clone()
    }

    /// The same, and what the house added with its file; `None` where it adds nothing.
    pub(crate) fn now(&self) -> (Arc<Law>, Option<(PathBuf, String)>) {
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

    fn look(&self) -> bool {
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
pub(crate) fn read(file: &Path) -> Result<String, String> {
    let problem = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
    let length = fs::metadata(file).map_err(problem)?.len();
    if length > LONGEST {
        return Err(format!("{} has {length} bytes; policies have {LONGEST} at most", file.display()));
    }
    fs::read_to_string(file).map_err(problem)
}

fn law(file: &Path, text: &str) -> Result<Law, String> {
    Law::of(Some((&file.display().to_string(), text))).map_err(|faults| faults.join("\n"))
}

/// Keeps what is in force for whoever asks later, on the record as everything that somebody changes. True once it is kept.
async fn keep(app: &App) -> bool {
    let (law, Some((file, text))) = app.access.now() else { return true };
    let version = law.version().to_owned();
    let behalf = Behalf {
        by: "the operating system".into(),
        asked: "access.policies".into(),
        at: file.display().to_string(),
    };
    let kept = on_behalf(
        behalf,
        app.engine.ledger(true, |view| {
            if view.get::<AccessPolicies>(&version)?.is_none() {
                let (version, text, file) = (version.clone(), text.clone(), file.clone());
                view.put(&AccessPolicies { version, text, file, since: view.now() })?;
            }
            Ok(())
        }),
    );
    match kept.await {
        Ok(()) => {
            tracing::info!(version, "policies of access are in force");
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the policies of access were not kept; trying again");
            false
        }
    }
}

/// Looks at the file every few seconds, until `stop`, and keeps what comes into force.
pub(crate) async fn run(app: Shared, mut stop: watch::Receiver<bool>) {
    if app.access.file.is_none() {
        return;
    }
    let mut is_kept = false;
    loop {
        is_kept = is_kept || keep(&app).await;
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let looking = app.clone();
        // The file may be where a read takes long.
        let replaced = tokio::task::spawn_blocking(move || looking.access.look()).await;
        is_kept &= !replaced.unwrap_or(false);
    }
}
