//! Refused requests: counted, folded, and recorded for the audit.
//!
//! Answers do not wait for the store: a refusal is noted in memory, and a job writes it later. Invariant: memory and the entries of a day are bounded, whatever
//! the number of refusals; counts include every refusal.

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

/// The maximum number of entries of a commit.
const BATCH: usize = 256;

/// Facts of a refusal in addition to those of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DenialContext {
    /// The IP address of the caller.
    pub(crate) from: Option<IpAddr>,
    /// True if the caller is authenticated.
    pub(crate) known: bool,
    /// True if the answer was that the resource does not exist.
    pub(crate) hidden: bool,
    /// A hash of the invalid credential; a repeated one is not a second guess.
    pub(crate) guess: Option<u64>,
    /// The number of guesses from one address per minute that are answered without delay.
    pub(crate) free: u32,
}

/// Refusals that are not recorded yet.
#[derive(Debug, Default)]
pub(crate) struct AccessDenials {
    folds: Mutex<FoldedDenials>,
    turns: Mutex<GuessDelays>,
}

impl AccessDenials {
    /// Notes a refusal at `now`. Returns the delay of the answer, which slows down guessing.
    pub(crate) fn note(
        &self,
        denial: Denial,
        seen: DenialContext,
        counted: &DenialMetrics,
        now: Timestamp,
    ) -> Duration {
        // Metrics are public: a count would reveal that the resource exists.
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

    /// Records what is ready at `now`; everything with `last`.
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

    /// Returns the number of refusals that are not recorded yet.
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
