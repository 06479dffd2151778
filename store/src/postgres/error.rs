//! Which failures of the database pass, and what the others are called.

use super::shared::Shared;
use crate::Error;
use std::{future::Future, sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;

/// The first pause between two tries; each is twice the one before, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Whether to try again: the connection broke, the server stops, starts, is a standby still, or chose this transaction as a victim.
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(database) => database.code().is_some_and(|code| {
            ["08", "40", "53", "57P"].iter().any(|class| code.starts_with(class))
                || ["25006", "55P03", "25P03", "XX000"].contains(&code.as_ref())
        }),
        _ => false,
    }
}

pub(super) fn unavailable(error: &sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(|database| database.code());
    let code = code.map_or_else(String::new, |code| format!(" ({code})"));
    Error::Unavailable { why: format!("the database: {error}{code}") }
}

/// How long tries are spread, and the pause before each.
pub(super) struct Retries {
    until: Instant,
    pause: Duration,
}

impl Retries {
    pub(super) fn within(patience: Duration) -> Self {
        Self { until: Instant::now() + patience, pause: FIRST_PAUSE }
    }

    /// Waits before another try; false when there is no time for one.
    pub(super) async fn again(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        true
    }
}

impl Shared {
    /// Does something that may be done twice, again while its failures pass.
    pub(super) async fn with_retries<T, F>(&self, work: impl Fn() -> F + Send + Sync) -> Result<T, Error>
    where
        F: Future<Output = Result<T, sqlx::Error>> + Send,
    {
        let mut retries = Retries::within(self.options.patience);
        loop {
            match work().await {
                Ok(done) => return Ok(done),
                Err(error) if is_transient(&error) => {
                    self.counters.retries.fetch_add(1, Ordering::Relaxed);
                    if !retries.again().await {
                        return Err(unavailable(&error));
                    }
                }
                Err(error) => return Err(unavailable(&error)),
            }
        }
    }
}
