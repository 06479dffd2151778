//! A state file of a backend: replaced atomically, synced, and locked by one process at a time.
//!
//! [`Steps`] holds the keys and epochs of steps, for targets that store neither.

use engine::ActionError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};
use store::Epoch;
use workflows::platform::{CallMetadata, codes};

/// The number of steps that are kept. A node has a few per day.
const STEPS: usize = 1_000;

/// The number of attempts to lock the file, and the delay between them.
const TRIES: u32 = 5;
const MOMENT: Duration = Duration::from_millis(20);

/// The recorded steps, in the order of their last calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Steps(Vec<Step>);

/// The record of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    step: String,
    epoch: Epoch,
    /// Keys that took effect, each with its request.
    done: Vec<(String, String)>,
}

impl Steps {
    /// Returns true if this call already took effect. Rejects a call with an outdated epoch.
    pub(super) fn admit(&self, request: &str, stamp: &CallMetadata) -> Result<bool, ActionError> {
        let Some(seen) = self.0.iter().find(|seen| seen.step == stamp.step) else {
            return Ok(false);
        };
        if stamp.epoch < seen.epoch {
            let why = format!(
                "epoch {} of step {} is outdated; epoch {} has already acted",
                stamp.epoch.0, stamp.step, seen.epoch.0
            );
            return Err(ActionError::permanent(codes::FENCED, why));
        }
        match seen.done.iter().find(|(key, _)| *key == stamp.key) {
            None => Ok(false),
            Some((_, before)) if before == request => Ok(true),
            Some((key, before)) => {
                let why = format!("key {key} was used for {before}, and is now used for {request}");
                Err(ActionError::permanent(codes::KEY_REUSED, why))
            }
        }
    }

    /// Returns true if the step of this call is recorded.
    #[cfg(feature = "drives")]
    pub(super) fn knows(&self, stamp: &CallMetadata) -> bool {
        self.0.iter().any(|seen| seen.step == stamp.step)
    }

    /// Records the step of a call, and its key and request if it took effect.
    pub(super) fn seen(&mut self, stamp: &CallMetadata, done: Option<&str>) {
        let at = self.0.iter().position(|seen| seen.step == stamp.step);
        let step = at.map(|at| self.0.remove(at));
        let mut step =
            step.unwrap_or_else(|| Step { step: stamp.step.clone(), epoch: stamp.epoch, done: Vec::new() });
        step.epoch = step.epoch.max(stamp.epoch);
        step.done.extend(done.map(|asked| (stamp.key.clone(), asked.to_owned())));
        self.0.drain(..self.0.len().saturating_sub(STEPS - 1));
        self.0.push(step);
    }
}

/// The content of a file, locked for this process.
#[derive(Debug)]
pub(super) struct LockedFile<T> {
    path: PathBuf,
    _lock: File,
    pub(super) content: T,
}

fn unavailable(path: &Path, error: impl std::fmt::Display) -> ActionError {
    ActionError::transient(codes::UNAVAILABLE, format!("the node's file {}: {error}", path.display()))
}

/// Returns true if a process has locked the file.
pub(super) fn is_held(path: &Path) -> bool {
    let lock = File::open(path.with_extension("lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Reads the file without a lock. An absent file has the default content.
pub(super) fn read<T: Default + DeserializeOwned>(path: &Path) -> Result<T, ActionError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let why = format!("the node's file {}: {error}; restore it or remove it", path.display());
            ActionError::permanent(codes::UNREADABLE, why)
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(unavailable(path, error)),
    }
}

impl<T: Default + Serialize + DeserializeOwned> LockedFile<T> {
    /// Locks the file. `at_work` describes the work of another process that may hold the lock, for the error.
    pub(super) fn take(path: &Path, at_work: &str) -> Result<Self, ActionError> {
        let lock = File::create(path.with_extension("lock")).map_err(|error| unavailable(path, error))?;
        let mut taken = lock.try_lock();
        for _ in 0..TRIES {
            if taken.is_ok() {
                break;
            }
            // A check by another process holds the lock for a moment.
            std::thread::sleep(MOMENT);
            taken = lock.try_lock();
        }
        match taken {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock, content: read(path)? }),
            Err(TryLockError::WouldBlock) => Err(unavailable(path, at_work)),
            Err(TryLockError::Error(error)) => Err(unavailable(path, error)),
        }
    }

    /// Writes the content to the file.
    pub(super) fn keep(&self) -> Result<(), ActionError> {
        let kept = || -> std::io::Result<()> {
            let fresh = self.path.with_extension("new");
            let mut file = File::create(&fresh)?;
            file.write_all(&serde_json::to_vec(&self.content)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        kept().map_err(|error| unavailable(&self.path, error))
    }
}
