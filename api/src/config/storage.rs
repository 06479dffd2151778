//! The store: embedded, or a PostgreSQL database.

use super::ConfigDuration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// A PostgreSQL database, as `postgres://user@host/database`, without a password. Default none: the embedded store.
    pub url: String,
    /// The schema of its tables. Default `tenure`.
    pub schema: String,
    /// The name of this process among those that share the database. Default: the host name.
    pub name: String,
    /// The maximum number of connections. Default 8.
    pub connections: u32,
    /// How long a commit or a read is retried while the database is unavailable. Default `30s`.
    pub patience: ConfigDuration,
    /// True to hold an embedded store whose folder was copied. Default true; use false on file systems that change inode numbers.
    pub notice_copies: bool,
}

/// The supported query parameters of a URL.
const PARAMETERS: [&str; 9] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "port",
    "options",
    "application_name",
    "statement-cache-capacity",
];

impl Default for StoreSettings {
    fn default() -> Self {
        let (none, schema) = (String::new, "tenure".into());
        Self {
            url: none(),
            schema,
            name: none(),
            connections: 8,
            patience: ConfigDuration(Duration::from_secs(30)),
            notice_copies: true,
        }
    }
}

impl StoreSettings {
    /// Returns the invalid key and its fault.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.url.is_empty() {
            return Ok(());
        }
        let Some(rest) =
            self.url.strip_prefix("postgres://").or_else(|| self.url.strip_prefix("postgresql://"))
        else {
            return Err("store.url: expected something like `postgres://user@host/database`".into());
        };
        // Settings are printed and logged, so they must not have a password.
        let user =
            rest.split(['/', '?']).next().and_then(|place| place.rsplit_once('@')).map(|(user, _)| user);
        if user.is_some_and(|user| user.contains(':')) || rest.contains("password=") {
            return Err(
                "store.url: remove the password from the URL; set PGPASSWORD or the file PGPASSFILE instead"
                    .into(),
            );
        }
        let parameters = rest.split_once('?').map_or("", |(_, parameters)| parameters);
        let names =
            parameters.split('&').filter_map(|one| one.split('=').next()).filter(|name| !name.is_empty());
        if let Some(unknown) = names.into_iter().find(|name| !PARAMETERS.contains(name)) {
            let known = PARAMETERS.join(", ");
            return Err(format!("store.url: unknown parameter `{unknown}`; use one of {known}"));
        }
        if self.connections < 3 {
            return Err("store.connections: use at least 3: for commits, reads and notifications".into());
        }
        Ok(())
    }
}
