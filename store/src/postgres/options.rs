//! The connection options of a process.

use std::{path::PathBuf, time::Duration};

/// The connection options of a process. Start from `PostgresOptions::for_url(url)`.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The URL, as `postgres://user@host:port/database?sslmode=verify-full`. Each of several hosts needs its own URL.
    pub url: String,
    /// The schema of the tables; created if it does not exist. Default `tenure`.
    pub schema: String,
    /// The name of this process in lists; it need not be unique. Default: `HOSTNAME`, or `tenure`.
    pub name: String,
    /// The most connections. Default 8.
    pub connections: u32,
    /// The limit of a statement, after which the database cancels it. Default 15 s.
    pub statement_timeout: Duration,
    /// How long a commit or a read is retried while the database is unavailable; a failover must fit. Default 30 s.
    pub retry_timeout: Duration,
    /// The interval of this process's heartbeats. Default 5 s.
    pub heartbeat: Duration,
    /// The file that stores the last commit that this process has seen, to detect a database that was set back.
    /// Default none.
    pub watermark_file: Option<PathBuf>,
}

impl PostgresOptions {
    /// The defaults, for the database at `url`.
    pub fn for_url(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: "tenure".into(),
            name: std::env::var("HOSTNAME").unwrap_or_else(|_| "tenure".into()),
            connections: 8,
            statement_timeout: Duration::from_secs(15),
            retry_timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(5),
            watermark_file: None,
        }
    }
}

/// Without the URL, which may hold a password.
impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("name", &self.name)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}
