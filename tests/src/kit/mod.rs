//! The conformance kit: what every actuator promises, as named cases that run over anything that plays [`Subject`].
//!
//! A subject is one thing with one amount, such as a resource quota or a limit of an account, made, looked at, changed and
//! removed through a backend, and seen by means other than the backend. [`run`] plays every case of [`cases`] on it and gives a
//! [`Table`] in which no cell is blank: a promise is held, or excused with the reason, or broken. `docs/backends/contract.md`
//! says how to run it over a backend of one's own.

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

/// Trouble that a subject is asked to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The next call that can change something never arrives, and the caller gets no answer.
    LoseRequest,
    /// The next call that can change something takes effect, and its answer is lost.
    LoseAnswer,
    /// Every call takes so long before it begins.
    Slow(Duration),
    /// Every call is turned away: come back after so long.
    Throttle(Duration),
    /// Every call is refused: not permitted.
    Deny,
    /// Every call gets an invalid answer. Nothing is done.
    Garbage,
    /// Nobody listens.
    Down,
    /// The next call that can change something takes effect, and no other call after it arrives.
    HalfDone,
    /// Every call is answered: there is no such thing here.
    NotSupported,
    /// No trouble.
    Calm,
}

/// One thing with an amount, behind a backend.
///
/// Names of things are of a-z, 0-9 and `-`, at most 30 characters, new for every case and run; a subject may map them to what its
/// target takes. All things are of one tenant of the subject's choice. Amounts are from 1 to 99.
#[async_trait]
pub trait Subject: Send + Sync {
    /// How tables call it.
    fn name(&self) -> &'static str;

    /// Makes the thing with an amount.
    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError>;

    /// The thing, as the backend finds it.
    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError>;

    /// Sets its amount, if that is `from`.
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

    /// Its amount, by means other than the backend and past all trouble; `None` where it is not there, or is going.
    async fn really(&self, thing: &str) -> Option<u64>;

    /// Has this trouble from here on, or says why it cannot have it. The answer is the reason in the table's cell.
    ///
    /// # Errors
    /// Why there is no such trouble here.
    async fn trouble(&self, next: Trouble) -> Result<(), &'static str>;

    /// Why this case cannot apply to it, if it cannot.
    fn excused(&self, case: &str) -> Option<&'static str>;

    /// Makes the thing by means other than the backend, so that it bears no mark of ours or another's.
    ///
    /// # Errors
    /// Why that cannot be done.
    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let _ = (thing, amount);
        Err("the subject has no means to make a foreign one")
    }

    /// Sets its amount by means other than the backend.
    ///
    /// # Errors
    /// Why that cannot be done.
    async fn tamper(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let _ = (thing, amount);
        Err("the subject has no means to change it behind the backend")
    }

    /// Removes it at once by means other than the backend.
    ///
    /// # Errors
    /// Why that cannot be done.
    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        let _ = thing;
        Err("the subject has no means to remove it behind the backend")
    }
}

/// How long a case may take. Real servers are slow, and none is this slow.
const CASE_WITHIN: Duration = Duration::from_secs(120);

/// Runs every case on the subject, one after the other, and returns the results.
pub async fn run(subject: &dyn Subject) -> Table {
    run_some(subject, |_| true).await
}

/// Plays the cases whose names are wanted.
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
