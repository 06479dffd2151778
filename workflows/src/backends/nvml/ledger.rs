//! What a node must not forget: which layout was asked for, what stood before a change that is under way, and the keys and epochs
//! of the steps that have acted. In one file, replaced whole and synced before anything is done.

use super::apply::Standing;
use crate::actuators::{Scrubbed, Stamp, codes};
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};
use store::Epoch;

/// How many steps are remembered; a node sees a few a day.
const STEPS: usize = 1_000;

/// How often, and how far apart, it is tried to take the file.
const TRIES: u32 = 5;
const MOMENT: Duration = Duration::from_millis(20);

/// What is in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ledger {
    /// The layout that was asked for last and came to stand.
    pub(super) asked: Option<String>,
    /// A change that was begun and has not ended.
    pub(super) underway: Option<Underway>,
    /// In the order of their last acts.
    steps: Vec<Step>,
}

/// A change that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Underway {
    /// To which layout.
    pub(super) profile: String,
    /// What to go back to.
    pub(super) before: Vec<Standing>,
}

/// A step that has acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    step: String,
    epoch: Epoch,
    /// Keys that took effect, with what was asked by them.
    done: Vec<(String, String)>,
    /// What scrubs came to, by key.
    #[serde(default)]
    scrubbed: Vec<(String, Scrubbed)>,
}

/// The file, and nobody else's while it is held.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    _lock: File,
    pub(super) ledger: Ledger,
}

fn unavailable(path: &Path, error: impl std::fmt::Display) -> ActionError {
    ActionError::transient(codes::UNAVAILABLE, format!("the node's file {}: {error}", path.display()))
}

/// Whether a process has the file.
pub(super) fn is_held(path: &Path) -> bool {
    let lock = File::open(path.with_extension("lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Reads the file without holding it.
pub(super) fn read(path: &Path) -> Result<Ledger, ActionError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let why = format!("the node's file {}: {error}; restore it or remove it", path.display());
            ActionError::permanent(codes::UNREADABLE, why)
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ledger::default()),
        Err(error) => Err(unavailable(path, error)),
    }
}

impl Held {
    /// Takes the file, unless another process has it.
    pub(super) fn take(path: &Path) -> Result<Self, ActionError> {
        let lock = File::create(path.with_extension("lock")).map_err(|error| unavailable(path, error))?;
        let mut taken = lock.try_lock();
        for _ in 0..TRIES {
            if taken.is_ok() {
                break;
            }
            // Whoever only looks whether it is held holds it for a moment.
            std::thread::sleep(MOMENT);
            taken = lock.try_lock();
        }
        match taken {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock, ledger: read(path)? }),
            Err(TryLockError::WouldBlock) => Err(unavailable(path, "another process is changing the GPUs")),
            Err(TryLockError::Error(error)) => Err(unavailable(path, error)),
        }
    }

    /// Whether this call took effect before. Refuses one of a holder that was followed by another.
    pub(super) fn admit(&self, request: &str, stamp: &Stamp) -> Result<bool, ActionError> {
        let Some(seen) = self.ledger.steps.iter().find(|seen| seen.step == stamp.step) else {
            return Ok(false);
        };
        if stamp.epoch < seen.epoch {
            let why =
                format!("epoch {} of step {} is over; {} has acted", stamp.epoch.0, stamp.step, seen.epoch.0);
            return Err(ActionError::permanent(codes::FENCED, why));
        }
        match seen.done.iter().find(|(key, _)| *key == stamp.key) {
            None => Ok(false),
            Some((_, before)) if before == request => Ok(true),
            Some((key, before)) => {
                let why = format!("key {key} asked for {before} before, and for {request} now");
                Err(ActionError::permanent(codes::KEY_REUSED, why))
            }
        }
    }

    /// Writes down that a change begins.
    pub(super) fn begin(&mut self, underway: Underway, stamp: &Stamp) -> Result<(), ActionError> {
        self.seen(stamp, None);
        self.ledger.underway = Some(underway);
        self.keep()
    }

    /// Writes down that it has ended well.
    pub(super) fn done(&mut self, profile: &str, stamp: &Stamp) -> Result<(), ActionError> {
        self.ledger.asked = Some(profile.to_owned());
        self.ledger.underway = None;
        self.seen(stamp, Some((stamp.key.clone(), profile.to_owned())));
        self.keep()
    }

    /// Writes down that everything is as it was before.
    pub(super) fn undone(&mut self) -> Result<(), ActionError> {
        self.ledger.underway = None;
        self.keep()
    }

    /// Writes down that a step acts which leaves nothing half done.
    pub(super) fn noted(&mut self, stamp: &Stamp) -> Result<(), ActionError> {
        self.seen(stamp, None);
        self.keep()
    }

    /// Writes down what a scrub came to.
    pub(super) fn cleared(
        &mut self,
        request: String,
        scrubbed: Scrubbed,
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        self.seen(stamp, Some((stamp.key.clone(), request)));
        if let Some(step) = self.ledger.steps.last_mut() {
            step.scrubbed.push((stamp.key.clone(), scrubbed));
        }
        self.keep()
    }

    /// What the scrub with this key came to.
    pub(super) fn scrubbed(&self, stamp: &Stamp) -> Option<Scrubbed> {
        let step = self.ledger.steps.iter().find(|seen| seen.step == stamp.step)?;
        step.scrubbed.iter().find(|(key, _)| *key == stamp.key).map(|(_, scrubbed)| scrubbed.clone())
    }

    /// Remembers that a step acts, and by which key it has acted.
    fn seen(&mut self, stamp: &Stamp, done: Option<(String, String)>) {
        let steps = &mut self.ledger.steps;
        let at = steps.iter().position(|seen| seen.step == stamp.step);
        let step = at.map(|at| steps.remove(at));
        let mut step = step.unwrap_or_else(|| Step {
            step: stamp.step.clone(),
            epoch: stamp.epoch,
            done: Vec::new(),
            scrubbed: Vec::new(),
        });
        step.epoch = step.epoch.max(stamp.epoch);
        step.done.extend(done);
        steps.drain(..steps.len().saturating_sub(STEPS - 1));
        steps.push(step);
    }

    fn keep(&self) -> Result<(), ActionError> {
        let kept = || -> std::io::Result<()> {
            let fresh = self.path.with_extension("new");
            let mut file = File::create(&fresh)?;
            file.write_all(&serde_json::to_vec(&self.ledger)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        kept().map_err(|error| unavailable(&self.path, error))
    }
}
