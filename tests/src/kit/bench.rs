//! The context of a case: a subject, an object of its own, and call metadata.

use super::{Subject, Trouble};
use engine::{ActionError, Class};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::Epoch;
use workflows::platform::{CallMetadata, FoundObject, codes};

/// The reason for ending a case early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The case cannot apply.
    Excused(&'static str),
    /// The subject breaks a promise.
    Broken(String),
}

/// The result of a case.
pub type Ended = Result<(), Stop>;

/// The default epoch of a case's calls.
pub(super) const NOW: u64 = 100;
/// How often an asynchronous change is polled.
const LOOKS: u32 = 400;
/// The pause between two attempts.
const BETWEEN: Duration = Duration::from_millis(50);

/// Counts the cases of this process, so that each has its own object.
static NTH: AtomicU32 = AtomicU32::new(0);

/// A subject with an object for one case.
pub struct Bench<'a> {
    /// The tested subject.
    pub subject: &'a dyn Subject,
    /// The case's object.
    pub thing: String,
    case: &'static str,
    others: Mutex<Vec<String>>,
}

impl<'a> Bench<'a> {
    /// For one case. The object has not existed before, in this run or an earlier one on the same target.
    #[must_use]
    pub fn new(subject: &'a dyn Subject, case: &'static str) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() % (1 << 36);
        let thing = format!("kit-{at:x}-{:x}", NTH.fetch_add(1, Ordering::SeqCst));
        Self { subject, thing, case, others: Mutex::default() }
    }

    /// Returns another object of the case.
    pub fn other(&self) -> String {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let other = format!("{}-{}", self.thing, others.len());
        others.push(other.clone());
        other
    }

    /// Returns the first call of a step.
    #[must_use]
    pub fn stamp(&self, step: &str) -> CallMetadata {
        let step = format!("kit/{}/{}/{step}", self.case, self.thing);
        CallMetadata {
            action: "Kit",
            key: step.clone(),
            step,
            epoch: Epoch(NOW),
            undo: false,
            deadline: Duration::from_secs(30),
            dry_run: false,
        }
    }

    /// Returns the call of a step's compensation.
    #[must_use]
    pub fn undo(&self, step: &str) -> CallMetadata {
        let of = self.stamp(step);
        CallMetadata { key: format!("{}/undo", of.step), undo: true, ..of }
    }

    /// Injects a fault, or ends the case if the subject does not support it.
    ///
    /// # Errors
    /// If the case cannot apply.
    pub async fn trouble(&self, next: Trouble) -> Ended {
        self.subject.trouble(next).await.map_err(Stop::Excused)
    }

    /// Makes the case's object, in the step `make`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub async fn made(&self, amount: u64) -> Result<FoundObject, Stop> {
        self.make(amount, &self.stamp("make")).await.map_err(|e| broken(format!("making it failed: {e}")))
    }

    /// Makes the case's object, and waits while it is pending.
    ///
    /// # Errors
    /// The backend's error.
    pub async fn make(&self, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        for _ in 1..LOOKS {
            match self.subject.make(&self.thing, amount, stamp).await {
                Err(ActionError { class: Class::Pending { .. }, .. }) => tokio::time::sleep(BETWEEN).await,
                other => return other,
            }
        }
        self.subject.make(&self.thing, amount, stamp).await
    }

    /// Changes the case's object.
    ///
    /// # Errors
    /// The backend's error.
    pub async fn change(&self, from: u64, to: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.subject.change(&self.thing, from, to, stamp).await
    }

    /// Returns the case's object as the backend finds it; the backend must not fail.
    ///
    /// # Errors
    /// If the backend fails.
    pub async fn look(&self) -> Result<Option<FoundObject>, Stop> {
        let looked = self.subject.look(&self.thing, &self.stamp("look")).await;
        looked.map_err(|e| broken(format!("looking failed: {e}")))
    }

    /// Returns the case's object, which must exist.
    ///
    /// # Errors
    /// If it does not exist.
    pub async fn there(&self) -> Result<FoundObject, Stop> {
        self.look().await?.ok_or_else(|| broken("the backend does not find it".into()))
    }

    /// Removes the case's object, and retries until it is absent.
    ///
    /// # Errors
    /// If it stays or cannot be removed.
    pub async fn removed(&self, found: &FoundObject, stamp: &CallMetadata) -> Ended {
        match self.subject.remove(&self.thing, found, stamp).await {
            Ok(()) | Err(ActionError { class: Class::Pending { .. }, .. }) => {}
            Err(error) => return Err(broken(format!("removing it failed: {error}"))),
        }
        self.gone().await
    }

    /// Waits until the case's object is absent, for the backend and by independent means.
    ///
    /// # Errors
    /// If it stays.
    pub async fn gone(&self) -> Ended {
        for _ in 0..LOOKS {
            if self.look().await?.is_none() {
                return self.really(None).await;
            }
            tokio::time::sleep(BETWEEN).await;
        }
        Err(broken("it was removed and stays".into()))
    }

    /// Checks the amount by independent means.
    ///
    /// # Errors
    /// If it differs.
    pub async fn really(&self, wanted: Option<u64>) -> Ended {
        let is = self.subject.really(&self.thing).await;
        holds(is == wanted, || format!("its amount should be {} and is {}", shown(wanted), shown(is)))
    }

    /// Removes the remains of the case as far as possible.
    pub(super) async fn clear(&self) {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for thing in others.iter().chain([&self.thing]) {
            let stamp = CallMetadata { epoch: Epoch(NOW * 100), ..self.stamp("clear").for_part(thing) };
            if let Ok(Some(found)) = self.subject.look(thing, &stamp).await {
                let _left_behind = self.subject.remove(thing, &found, &stamp).await;
            }
            let _already_gone = self.subject.vanish(thing).await;
        }
    }
}

fn shown(amount: Option<u64>) -> String {
    amount.map_or_else(|| "nothing".to_owned(), |amount| amount.to_string())
}

/// Returns a broken promise.
#[must_use]
pub fn broken(what: String) -> Stop {
    Stop::Broken(what)
}

/// Checks that a condition holds.
///
/// # Errors
/// The description of the violation.
pub fn holds(is: bool, wrong: impl FnOnce() -> String) -> Ended {
    if is { Ok(()) } else { Err(broken(wrong())) }
}

/// Returns the failure in an answer, which must have a known code.
///
/// # Errors
/// If the call succeeded, or the code is missing from the list of codes.
pub fn failure<T>(answer: Result<T, ActionError>) -> Result<ActionError, Stop> {
    let Err(error) = answer else { return Err(broken("it succeeded and should not have".into())) };
    let known = codes::ALL.iter().any(|(code, _)| *code == error.code);
    holds(known, || format!("code {} is in no list; its message is {}", error.code, error.message))?;
    Ok(error)
}

/// Checks that the failure has this code.
///
/// # Errors
/// If it has another one.
pub fn coded(error: &ActionError, wanted: &[&str]) -> Ended {
    let fits = wanted.contains(&error.code.as_str());
    holds(fits, || format!("the code should be {} and the answer is {error}", wanted.join(" or ")))
}

/// Checks that the failure leaves the outcome unknown.
///
/// # Errors
/// If it does not.
pub fn unknown(error: &ActionError) -> Ended {
    holds(error.class == Class::Unknown, || {
        format!("the outcome is unknown and the answer says {:?}: {error}", error.class)
    })
}

/// Checks that the failure is transient.
///
/// # Errors
/// If it is not.
pub fn transient(error: &ActionError) -> Ended {
    holds(error.class == Class::Transient, || {
        format!("it may pass and the answer says {:?}: {error}", error.class)
    })
}

/// Checks that the failure is permanent.
///
/// # Errors
/// If it is not.
pub fn permanent(error: &ActionError) -> Ended {
    holds(error.class == Class::Permanent, || {
        format!("repeating it does not help and the answer says {:?}: {error}", error.class)
    })
}
