//! The last use of each token, rounded to the hour, so that unused tokens can be found and revoked.
//!
//! Requests do not wait for it: a use is noted in memory, and a job writes it later, once per hour and token. A crash loses unwritten uses; the next use
//! records it again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::Timestamp;

/// The precision, in milliseconds: one hour.
const HOUR: u64 = 3_600_000;

/// Token ids with the hour of their last use, and whether it must be written.
#[derive(Debug, Default)]
pub(crate) struct TokenUsage(Mutex<BTreeMap<String, (u64, bool)>>);

impl TokenUsage {
    /// Notes that the token with this id was used at `now`.
    pub(crate) fn note(&self, token: &str, now: Timestamp) {
        let hour = now.0 / HOUR;
        let mut noted = self.noted();
        if noted.get(token).is_none_or(|(at, _)| *at < hour) {
            noted.insert(token.to_owned(), (hour, true));
        }
    }

    /// Returns the uses to write, each once; removes those of earlier hours.
    pub(crate) fn take(&self, now: Timestamp) -> Vec<(String, Timestamp)> {
        let mut noted = self.noted();
        let fresh = noted.iter_mut().filter(|(_, (_, fresh))| *fresh);
        let taken = fresh.map(|(token, (hour, fresh))| {
            *fresh = false;
            (token.clone(), Timestamp(hour.saturating_mul(HOUR)))
        });
        let taken = taken.collect();
        noted.retain(|_, (hour, _)| *hour >= now.0 / HOUR);
        taken
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<String, (u64, bool)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_token_is_written_once_an_hour() {
        let uses = TokenUsage::default();
        let noon = Timestamp(12 * HOUR);
        for later in [0, 5, HOUR - 1] {
            uses.note("a", Timestamp(noon.0 + later));
        }
        assert_eq!(uses.take(noon), [("a".to_owned(), noon)]);
        uses.note("a", Timestamp(noon.0 + 7));
        assert!(uses.take(noon).is_empty());

        let one = Timestamp(13 * HOUR);
        uses.note("a", Timestamp(one.0 + 7));
        uses.note("b", one);
        assert_eq!(uses.take(one), [("a".to_owned(), one), ("b".to_owned(), one)]);
        assert!(
            uses.take(Timestamp(14 * HOUR)).is_empty() && uses.noted().is_empty(),
            "memory does not grow"
        );
    }
}
