//! Where everything is kept: the embedded store, or a database.

use super::Span;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where everything is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Keep {
    /// A PostgreSQL database, as `postgres://user@host/database`, without a password. Default none: the embedded store.
    pub(crate) url: String,
    /// The schema of its tables. Default `tenure`.
    pub(crate) schema: String,
    /// What this process is called among those that share the database. Default the host's name.
    pub(crate) name: String,
    /// Connections at the most. Default 8.
    pub(crate) connections: u32,
    /// How long a commit or a read is tried again while the database is away. Default `30s`.
    pub(crate) patience: Span,
}

impl Default for Keep {
    fn default() -> Self {
        let (none, schema) = (String::new, "tenure".into());
        Self { url: none(), schema, name: none(), connections: 8, patience: Span(Duration::from_secs(30)) }
    }
}

impl Keep {
    /// What is wrong with it by itself, by the key at fault.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.url.is_empty() {
            return Ok(());
        }
        let Some(rest) =
            self.url.strip_prefix("postgres://").or_else(|| self.url.strip_prefix("postgresql://"))
        else {
            return Err("store.url: expected something like `postgres://user@host/database`".into());
        };
        // Settings are printed and logged.
        let user =
            rest.split(['/', '?']).next().and_then(|place| place.rsplit_once('@')).map(|(user, _)| user);
        if user.is_some_and(|user| user.contains(':')) || rest.contains("password=") {
            return Err(
                "store.url: leave the password out of it; put it into PGPASSWORD or the file of PGPASSFILE"
                    .into(),
            );
        }
        if self.connections < 3 {
            return Err("store.connections: use at least 3: to commit, to read, and to listen".into());
        }
        Ok(())
    }
}
