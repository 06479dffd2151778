//! Requests that were refused for who asked: counted, folded, and put on record for the audit.
//!
//! The answer is never kept waiting for the store, nor refused for it: what happened is noted in memory, and written a moment later
//! by a job of the server. Invariant: what is kept in memory and what is written in a day are bounded, however many are refused; nothing is
//! left out of the counts for it.

mod delay;
mod fold;

pub(crate) use delay::network;

use crate::telemetry::metrics::DenialMetrics;
use delay::GuessDelays;
use engine::Engine;
use fold::FoldedDenials;
use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::{Commit, Timestamp};
use workflows::{audit::Denial, platform::Platform};

/// The most entries of one commit.
const BATCH: usize = 256;

/// What is known of a refusal beside what the audit tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DenialContext {
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
pub(crate) struct AccessDenials {
    folds: Mutex<FoldedDenials>,
    turns: Mutex<GuessDelays>,
}

impl AccessDenials {
    /// Notes a refusal of the moment `now`. Says how long its answer is to wait: who guesses is slowed.
    pub(crate) fn note(
        &self,
        denial: Denial,
        seen: DenialContext,
        counted: &DenialMetrics,
        now: Timestamp,
    ) -> Duration {
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
    pub(crate) async fn write(&self, engine: &Engine<Platform>, last: bool) -> Result<(), store::Error> {
        loop {
            let now = engine.clock().now();
            let batch = self.folds().take(BATCH, last, now);
            if batch.is_empty() {
                return Ok(());
            }
            let journal = batch.iter().map(|denial| denial.entry(now)).collect();
            let commit = Commit { journal, ..Commit::default() };
            if let Err(error) = engine.store().commit(commit).await {
                self.folds().give_back(batch);
                return Err(error);
            }
        }
    }

    /// How many refusals are not on record yet.
    pub(crate) fn left(&self) -> u64 {
        self.folds().left()
    }

    fn folds(&self) -> MutexGuard<'_, FoldedDenials> {
        self.folds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self) -> MutexGuard<'_, GuessDelays> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
