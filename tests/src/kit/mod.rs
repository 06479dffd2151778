//! The conformance kit: the contract of actuators as named cases, which run on any [`Subject`].
//!
//! A subject is an object with an amount, such as a resource quota or an account limit. A backend makes, reads, changes and
//! removes it, and independent means read it too. [`run`] runs every case of [`cases`] on it and returns a [`Table`] without
//! blank cells: a promise is kept, excused with a reason, or broken. `docs/backends/contract.md` explains how to run the kit
//! for a new backend.

mod bench;
mod cases;
pub mod house;
pub mod proxy;
mod table;

pub use bench::{Bench, Ended, Stop};
pub use cases::{Case, cases};
pub use table::{Cell, Table, records};

use async_trait::async_trait;
use engine::ActionError;
use std::time::Duration;
use workflows::platform::{CallMetadata, FoundObject};

/// A fault that a subject must inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The next call that can change something never arrives, and the caller gets no answer.
    LoseRequest,
    /// The next call that can change something takes effect, and its answer is lost.
    LoseAnswer,
    /// Every call is delayed by this span.
    Slow(Duration),
    /// Every call is refused with this retry delay.
    Throttle(Duration),
    /// Every call is denied.
    Deny,
    /// Every call gets an invalid answer. Nothing is done.
    Garbage,
    /// The target is down.
    Down,
    /// The next call that can change something takes effect, and no other call after it arrives.
    HalfDone,
    /// Every call is answered as unsupported.
    NotSupported,
    /// No fault.
    Calm,
}

/// An object with an amount, behind a backend.
///
/// Names of objects consist of a-z, 0-9 and `-`, have at most 30 characters, and are new for every case and run; a subject may
/// map them to the target's names. All objects belong to one tenant of the subject's choice. Amounts are from 1 to 99.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Returns its name in tables.
    fn name(&self) -> &'static str;

    /// Makes the object with an amount.
    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError>;

    /// Returns the object, as the backend finds it.
    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError>;

    /// Sets its amount, if the current one is `from`.
    async fn change(
        &self,
        thing: &str,
        from: u64,
        to: u64,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// Removes it, or requests its removal, if it is still the found one.
    async fn remove(&self, thing: &str, found: &FoundObject, stamp: &CallMetadata)
    -> Result<(), ActionError>;

    /// Returns its amount, by independent means and without faults; `None` if it is absent or being deleted.
    async fn really(&self, thing: &str) -> Option<u64>;

    /// Injects this fault from now on, or returns why it cannot. The reason is shown in the table's cell.
    ///
    /// # Errors
    /// The reason if this fault is not supported.
    async fn trouble(&self, next: Trouble) -> Result<(), &'static str>;

    /// Returns why this case cannot apply, if so.
    fn excused(&self, case: &str) -> Option<&'static str>;

    /// Makes the object by independent means, without a label.
    ///
    /// # Errors
    /// The reason if that is not possible.
    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let _ = (thing, amount);
        Err("the subject has no means to make a foreign one")
    }

    /// Sets its amount by independent means.
    ///
    /// # Errors
    /// The reason if that is not possible.
    async fn tamper(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let _ = (thing, amount);
        Err("the subject has no means to change it behind the backend")
    }

    /// Removes it at once by independent means.
    ///
    /// # Errors
    /// The reason if that is not possible.
    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        let _ = thing;
        Err("the subject has no means to remove it behind the backend")
    }
}

/// The maximum duration of a case, longer than any real server needs.
const CASE_WITHIN: Duration = Duration::from_secs(120);

/// Runs every case on the subject, one after the other, and returns the results.
pub async fn run(subject: &dyn Subject) -> Table {
    run_some(subject, |_| true).await
}

/// Runs the cases that `wanted` selects.
pub async fn run_some(subject: &dyn Subject, wanted: impl Fn(&str) -> bool) -> Table {
    let mut table = Table::default();
    for case in cases().into_iter().filter(|case| wanted(case.name)) {
        let cell = play(subject, &case).await;
        table.put(subject.name(), case.name, cell);
    }
    table
}

async fn play(subject: &dyn Subject, case: &Case) -> Cell {
    if let Some(why) = subject.excused(case.name) {
        return Cell::Excused(why.to_owned());
    }
    let bench = Bench::new(subject, case.name);
    let ended = tokio::time::timeout(CASE_WITHIN, (case.play)(&bench)).await;
    let calmed = subject.trouble(Trouble::Calm).await;
    bench.clear().await;
    match ended {
        Err(_) => Cell::Broken(format!("no end after {} s", CASE_WITHIN.as_secs())),
        Ok(Err(Stop::Broken(what))) => Cell::Broken(what),
        Ok(Err(Stop::Excused(why))) => Cell::Excused(why.to_owned()),
        Ok(Ok(())) => match calmed {
            Ok(()) => Cell::Held,
            Err(why) => Cell::Broken(format!("the subject does not come to rest: {why}")),
        },
    }
}
