//! How a process uses the database.

use std::{path::PathBuf, time::Duration};

/// How a process uses the database. Start from `PostgresOptions::for_url(url)`.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Where it is, as `postgres://user@host:port/database?sslmode=verify-full`. Several hosts stand in one URL each.
    pub url: String,
    /// The schema that the tables are in; made if there is none. Default `tenure`.
    pub schema: String,
    /// What this process is called in lists; several may bear one name. Default the host's, from `HOSTNAME`, or `tenure`.
    pub name: String,
    /// Connections at the most. Default 8.
    pub connections: u32,
    /// The database breaks off what takes longer. Default 15 s.
    pub statement_timeout: Duration,
    /// How long a commit or a read is tried again while the database is away or refuses for now; a failover must fit. Default 30 s.
    pub retry_timeout: Duration,
    /// How often this process says that it lives. Default 5 s.
    pub heartbeat: Duration,
    /// The file in which this process keeps how far it has seen the database, so that one that was set back is noticed.
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
