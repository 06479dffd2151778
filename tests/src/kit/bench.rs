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

/// Why a case ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It cannot apply.
    Excused(&'static str),
    /// The subject breaks a promise.
    Broken(String),
}

/// How a case ends.
pub type Ended = Result<(), Stop>;

/// The epoch of every call of which a case says nothing else.
pub(super) const NOW: u64 = 100;
/// How often something that is on its way is looked at.
const LOOKS: u32 = 400;
/// The pause between two attempts.
const BETWEEN: Duration = Duration::from_millis(50);

/// Counts the cases of this process, so that each has a thing of its own.
static NTH: AtomicU32 = AtomicU32::new(0);

/// A subject with a thing of its own.
pub struct Bench<'a> {
    /// The tested subject.
    pub subject: &'a dyn Subject,
    /// The case's thing.
    pub thing: String,
    case: &'static str,
    others: Mutex<Vec<String>>,
}

impl<'a> Bench<'a> {
    /// For one case. The thing has not been there before, in this run or an earlier one against the same target.
    #[must_use]
    pub fn new(subject: &'a dyn Subject, case: &'static str) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() % (1 << 36);
        let thing = format!("kit-{at:x}-{:x}", NTH.fetch_add(1, Ordering::SeqCst));
        Self { subject, thing, case, others: Mutex::default() }
    }

    /// Another thing of the case.
    pub fn other(&self) -> String {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let other = format!("{}-{}", self.thing, others.len());
        others.push(other.clone());
        other
    }

    /// The first call of a step.
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

    /// The compensation of a step.
    #[must_use]
    pub fn undo(&self, step: &str) -> CallMetadata {
        let of = self.stamp(step);
        CallMetadata { key: format!("{}/undo", of.step), undo: true, ..of }
    }

    /// Has trouble, or ends the case where the subject cannot have it.
    ///
    /// # Errors
    /// That the case cannot apply.
    pub async fn trouble(&self, next: Trouble) -> Ended {
        self.subject.trouble(next).await.map_err(Stop::Excused)
    }

    /// Makes the case's thing, in the step `make`.
    ///
    /// # Errors
    /// That it cannot be made.
    pub async fn made(&self, amount: u64) -> Result<FoundObject, Stop> {
        self.make(amount, &self.stamp("make")).await.map_err(|e| broken(format!("making it failed: {e}")))
    }

    /// Makes the case's thing, and waits while it is on its way.
    ///
    /// # Errors
    /// What the backend says.
    pub async fn make(&self, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        for _ in 1..LOOKS {
            match self.subject.make(&self.thing, amount, stamp).await {
                Err(ActionError { class: Class::Pending { .. }, .. }) => tokio::time::sleep(BETWEEN).await,
                other => return other,
            }
        }
        self.subject.make(&self.thing, amount, stamp).await
    }

    /// Changes the case's thing.
    ///
    /// # Errors
    /// What the backend says.
    pub async fn change(&self, from: u64, to: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.subject.change(&self.thing, from, to, stamp).await
    }

    /// The case's thing as the backend finds it, which must be able to say.
    ///
    /// # Errors
    /// That it cannot say.
    pub async fn look(&self) -> Result<Option<FoundObject>, Stop> {
        let looked = self.subject.look(&self.thing, &self.stamp("look")).await;
        looked.map_err(|e| broken(format!("looking failed: {e}")))
    }

    /// The case's thing, which must be there.
    ///
    /// # Errors
    /// That it is not.
    pub async fn there(&self) -> Result<FoundObject, Stop> {
        self.look().await?.ok_or_else(|| broken("the backend does not find it".into()))
    }

    /// Removes the case's thing, again until it is not to be found.
    ///
    /// # Errors
    /// That it stays, or cannot be removed.
    pub async fn removed(&self, found: &FoundObject, stamp: &CallMetadata) -> Ended {
        match self.subject.remove(&self.thing, found, stamp).await {
            Ok(()) | Err(ActionError { class: Class::Pending { .. }, .. }) => {}
            Err(error) => return Err(broken(format!("removing it failed: {error}"))),
        }
        self.gone().await
    }

    /// Waits until the case's thing is not to be found, neither by the backend nor by other means.
    ///
    /// # Errors
    /// That it stays.
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
    /// That it is not.
    pub async fn really(&self, wanted: Option<u64>) -> Ended {
        let is = self.subject.really(&self.thing).await;
        holds(is == wanted, || format!("its amount should be {} and is {}", shown(wanted), shown(is)))
    }

    /// Takes away what the case has left behind, as far as that can be done.
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

/// A promise that is broken.
#[must_use]
pub fn broken(what: String) -> Stop {
    Stop::Broken(what)
}

/// Checks that a condition holds.
///
/// # Errors
/// What is wrong where it does not.
pub fn holds(is: bool, wrong: impl FnOnce() -> String) -> Ended {
    if is { Ok(()) } else { Err(broken(wrong())) }
}

/// The failure that an answer must be, with a code that has a remedy.
///
/// # Errors
/// If the call succeeded, or the code is missing from the list of codes.
pub fn failure<T>(answer: Result<T, ActionError>) -> Result<ActionError, Stop> {
    let Err(error) = answer else { return Err(broken("it succeeded and should not have".into())) };
    let known = codes::ALL.iter().any(|(code, _)| *code == error.code);
    holds(known, || format!("code {} stands in no list, with {}", error.code, error.message))?;
    Ok(error)
}

/// The failure has this code.
///
/// # Errors
/// That it has another.
pub fn coded(error: &ActionError, wanted: &[&str]) -> Ended {
    let fits = wanted.contains(&error.code.as_str());
    holds(fits, || format!("the code should be {} and the answer is {error}", wanted.join(" or ")))
}

/// The failure leaves the outcome unknown.
///
/// # Errors
/// That it says otherwise.
pub fn unknown(error: &ActionError) -> Ended {
    holds(error.class == Class::Unknown, || {
        format!("the outcome is unknown and the answer says {:?}: {error}", error.class)
    })
}

/// The failure may pass.
///
/// # Errors
/// That it says otherwise.
pub fn transient(error: &ActionError) -> Ended {
    holds(error.class == Class::Transient, || {
        format!("it may pass and the answer says {:?}: {error}", error.class)
    })
}

/// The failure stays.
///
/// # Errors
/// That it says otherwise.
pub fn permanent(error: &ActionError) -> Ended {
    holds(error.class == Class::Permanent, || {
        format!("repeating it does not help and the answer says {:?}: {error}", error.class)
    })
}
