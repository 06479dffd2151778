//! Requests that were refused for who asked: counted, folded, and put on record for the audit.
//!
//! The answer is never kept waiting for the store, nor refused for it: what happened is noted in memory, and written a moment later
//! by [`run`]. Invariant: what is kept in memory and what is written in a day are bounded, however many are refused; nothing is
//! left out of the counts for it.

mod delay;
mod fold;

pub(crate) use crate::state::access_denials::delay::network;

use crate::state::access_denials::delay::Turns;
use crate::{state::Shared, telemetry::metrics::Refusals};
use fold::Folds;
use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::{Commit, Timestamp};
use tokio::sync::oneshot;
use workflows::audit::Denial;

/// How often what was noted is written.
const EVERY: Duration = Duration::from_secs(1);
/// The most entries of one commit.
const BATCH: usize = 256;
/// How long a server that stops tries to write what is left.
const LAST: Duration = Duration::from_secs(5);

/// What is known of a refusal beside what the audit tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// From where it was asked.
    pub(crate) from: Option<IpAddr>,
    /// Whether it was proved who asked.
    pub(crate) known: bool,
    /// Whether it was said that there is no such thing.
    pub(crate) hidden: bool,
    /// What was sent as a proof and is none, as a hash; the same one twice is no second guess.
    pub(crate) guess: Option<u64>,
    /// So many guesses from one address are answered at once in a minute.
    pub(crate) free: u32,
}

/// Refusals that are not on record yet.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    folds: Mutex<Folds>,
    turns: Mutex<Turns>,
}

impl Denials {
    /// Notes a refusal of the moment `now`. Says how long its answer is to wait: who guesses is slowed.
    pub(crate) fn note(&self, denial: Denial, seen: Seen, counted: &Refusals, now: Timestamp) -> Duration {
        // Metrics are open: a count would tell that there is such a thing.
        if !seen.hidden {
            counted.refused(&denial.code);
        }
        if self.folds().note(&denial, seen.known, now) {
            tracing::info!(
                code = denial.code,
                who = denial.who,
                from = denial.what.from,
                asked = denial.what.asked,
                "denied"
            );
        }
        match (seen.from, seen.guess) {
            (Some(from), Some(guess)) => self.turns().wait(from, guess, seen.free, now),
            (None, _) | (_, None) => Duration::ZERO,
        }
    }

    /// Puts on record what is ready by `now`; all there is, if this is the `last` time.
    async fn write(&self, app: &Shared, last: bool) -> Result<(), store::Error> {
        loop {
            let now = app.engine.clock().now();
            let batch = self.folds().take(BATCH, last, now);
            if batch.is_empty() {
                return Ok(());
            }
            let journal = batch.iter().map(|denial| denial.entry(now)).collect();
            let commit = Commit { journal, ..Commit::default() };
            if let Err(error) = app.engine.store().commit(commit).await {
                self.folds().give_back(batch);
                return Err(error);
            }
        }
    }

    fn folds(&self) -> MutexGuard<'_, Folds> {
        self.folds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes until `over` says that nothing is answered any more, and then what is left.
pub(crate) async fn run(app: Shared, mut over: oneshot::Receiver<()>) {
    let mut told = None;
    loop {
        let last = tokio::select! {
            _ = &mut over => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        let problem = if last {
            let written = tokio::time::timeout(LAST, app.denials.write(&app, true)).await;
            written.map_or_else(|_| Some("the store does not answer".to_owned()), |ended| said(ended.err()))
        } else {
            said(app.denials.write(&app, false).await.err())
        };
        if problem != told {
            match &problem {
                Some(why) => {
                    tracing::error!(why, "what was denied cannot be put on record; it is kept in memory")
                }
                None => tracing::info!("what was denied is put on record again"),
            }
            told = problem;
        }
        if last {
            let left = app.denials.folds().left();
            if left > 0 {
                tracing::error!(left, "requests that were denied are not on record: the server stops");
            }
            return;
        }
    }
}

fn said(error: Option<store::Error>) -> Option<String> {
    error.map(|error| error.to_string())
}
