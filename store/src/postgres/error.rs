//! Classifies errors of the database: transient or not.

use super::shared::Shared;
use crate::Error;
use std::{future::Future, sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;

/// The first pause between two tries; each is twice the one before, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Returns true if a retry may help: the connection broke, the server is stopping, starting or still a standby, it
/// chose this transaction as a victim, or it cancelled a slow statement.
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(database) => database.code().is_some_and(|code| {
            ["08", "40", "53", "57P"].iter().any(|class| code.starts_with(class))
                || ["25006", "55P03", "57014", "25P03", "XX000"].contains(&code.as_ref())
        }),
        _ => false,
    }
}

/// Converts a permanent database error of a commit: only data that the database cannot store is the caller's fault.
pub(super) fn rejected(error: &sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(|database| database.code());
    match code {
        // Data exceptions, and violations of constraints.
        Some(code) if code.starts_with("22") || code.starts_with("23") => {
            Error::Invalid { what: format!("the database refuses it: {error}") }
        }
        Some(_) | None => unavailable(error),
    }
}

pub(super) fn unavailable(error: &sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(|database| database.code());
    let code = code.map_or_else(String::new, |code| format!(" ({code})"));
    Error::Unavailable { why: format!("the database: {error}{code}") }
}

/// The duration of retries, and the pause before each.
pub(super) struct Retries {
    until: Instant,
    pause: Duration,
}

impl Retries {
    pub(super) fn within(patience: Duration) -> Self {
        Self { until: Instant::now() + patience, pause: FIRST_PAUSE }
    }

    /// Waits before another try. Returns false if there is no time left.
    pub(super) async fn wait(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        true
    }
}

impl Shared {
    /// Runs an idempotent operation, and again while its failures are transient.
    pub(super) async fn with_retries<T, F>(&self, work: impl Fn() -> F + Send + Sync) -> Result<T, Error>
    where
        F: Future<Output = Result<T, sqlx::Error>> + Send,
    {
        let mut retries = Retries::within(self.options.retry_timeout);
        loop {
            match work().await {
                Ok(done) => return Ok(done),
                Err(error) if is_transient(&error) => {
                    self.counters.retries.fetch_add(1, Ordering::Relaxed);
                    if !retries.wait().await {
                        return Err(unavailable(&error));
                    }
                }
                Err(error) => return Err(unavailable(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;
    use sqlx::error::{DatabaseError, ErrorKind};
    use std::{borrow::Cow, fmt};

    /// An error of the database with this SQLSTATE.
    #[derive(Debug)]
    struct State(&'static str);

    impl fmt::Display for State {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for State {}

    impl DatabaseError for State {
        fn message(&self) -> &str {
            self.0
        }
        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }
        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }
        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }
        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }
        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn database(code: &'static str) -> sqlx::Error {
        sqlx::Error::Database(Box::new(State(code)))
    }

    #[test]
    fn a_slow_or_absent_database_is_retried() {
        for code in ["57014", "55P03", "40001", "40P01", "08006", "53300", "57P01", "25006"] {
            assert!(is_transient(&database(code)), "{code}");
        }
        assert!(is_transient(&sqlx::Error::PoolTimedOut) && is_transient(&sqlx::Error::WorkerCrashed));
    }

    #[test]
    fn only_data_that_the_database_cannot_hold_is_the_callers_fault() {
        for code in ["22001", "22P02", "23505", "23514"] {
            assert_eq!(rejected(&database(code)).fault(), Fault::Caller, "{code}");
        }
        for code in ["57014", "55P03", "40001", "42P01", "42501", "54000", "58030", "XX000", "0A000"] {
            assert_eq!(rejected(&database(code)).fault(), Fault::Unavailable, "{code}");
        }
        for error in [sqlx::Error::PoolTimedOut, sqlx::Error::PoolClosed, sqlx::Error::RowNotFound] {
            assert_eq!(unavailable(&error).fault(), Fault::Unavailable, "{error}");
        }
    }
}
