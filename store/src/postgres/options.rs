//! How a process uses the database.

use std::{path::PathBuf, time::Duration};

/// How a process uses the database. Start from `PostgresOptions::at(url)`.
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
    pub statement: Duration,
    /// How long a commit or a read is tried again while the database is away or refuses for now; a failover must fit. Default 30 s.
    pub patience: Duration,
    /// How often this process says that it lives. Default 5 s.
    pub beat: Duration,
    /// The file in which this process keeps how far it has seen the database, so that one that was set back is noticed.
    /// Default none.
    pub witness: Option<PathBuf>,
}

impl PostgresOptions {
    /// The defaults, for the database at `url`.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: "tenure".into(),
            name: std::env::var("HOSTNAME").unwrap_or_else(|_| "tenure".into()),
            connections: 8,
            statement: Duration::from_secs(15),
            patience: Duration::from_secs(30),
            beat: Duration::from_secs(5),
            witness: None,
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
