//! The store: embedded in the data folder, or a PostgreSQL database.

use crate::config::{Config, StoreSettings, store_dir};
use program::{
    encoding::rfc3339::format_time,
    exit::{Failure, store_failure},
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::DirBuilderExt as _, sync::Arc};
use store::{
    Embedded, Store, Timestamp,
    postgres::{Postgres, PostgresOptions},
};

/// An open store.
#[derive(Clone)]
pub(crate) enum Storage {
    /// In the data folder, for one process.
    Embedded(Arc<Embedded>),
    /// In a database, for several processes.
    Postgres(Arc<Postgres>),
}

impl Storage {
    /// Opens the configured store, and logs the result of its recovery.
    pub(crate) async fn open(config: &Config) -> Result<Self, Failure> {
        let data = config.data.clone();
        let unmade = |e| Failure::other(format!("{}: {e}", data.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&data).map_err(unmade)?;
        match config.store.options() {
            Some(options) => {
                let options = PostgresOptions { watermark_file: Some(data.join("database-seen")), ..options };
                Ok(Self::Postgres(Arc::new(Postgres::open(options).await.map_err(store_failure)?)))
            }
            None => open_embedded(config).await.map(Self::Embedded),
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => store.clone(),
            Self::Postgres(store) => store.clone(),
        }
    }

    /// Returns true if other processes may use the store.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Returns the name of this process in leases.
    pub(crate) fn holder(&self) -> String {
        match self {
            Self::Embedded(_) => engine::Options::default().holder,
            Self::Postgres(store) => store.lease_holder(),
        }
    }

    /// Returns the time of the database; `None` for the embedded store.
    pub(crate) async fn database_time(&self) -> Result<Option<Timestamp>, store::Error> {
        match self {
            Self::Embedded(_) => Ok(None),
            Self::Postgres(store) => store.database_time().await.map(Some),
        }
    }

    pub(crate) async fn close(&self) -> Result<(), store::Error> {
        match self {
            Self::Embedded(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    /// Returns the processes that share the store.
    pub(crate) async fn engines(&self) -> Result<Vec<Value>, store::Error> {
        match self {
            Self::Embedded(_) => Ok(vec![json!({
                "id": self.holder(),
                "name": self.holder(),
                "version": env!("CARGO_PKG_VERSION"),
                "state": "alive",
                "here": true,
            })]),
            Self::Postgres(store) => {
                let here = store.lease_holder();
                let rows = store.engine_processes().await?;
                Ok(rows.iter().map(|row| node_json(row, here.ends_with(&row.id.to_string()))).collect())
            }
        }
    }
}

fn node_json(row: &store::postgres::EngineProcess, here: bool) -> Value {
    // A process is silent after three missed heartbeats.
    let silent = row.silent_ms > 15_000;
    let state = match (row.ended, silent) {
        (true, _) => "ended",
        (false, true) => "silent",
        (false, false) => "alive",
    };
    json!({
        "id": row.id.to_string(),
        "name": row.name,
        "version": row.version,
        "started_at": format_time(row.started_at),
        "state": state,
        "silent_ms": row.silent_ms,
        "holds": row.held,
        "batches": row.batch,
        "here": here,
    })
}

impl StoreSettings {
    /// Returns the options of the database, if configured.
    pub fn options(&self) -> Option<PostgresOptions> {
        if self.url.is_empty() {
            return None;
        }
        let defaults = PostgresOptions::for_url(&self.url);
        let name = if self.name.is_empty() { defaults.name.clone() } else { self.name.clone() };
        Some(PostgresOptions {
            schema: self.schema.clone(),
            name,
            connections: self.connections,
            retry_timeout: self.patience.0,
            ..defaults
        })
    }
}

async fn open_embedded(config: &Config) -> Result<Arc<Embedded>, Failure> {
    let options = store::Options {
        on_stall: Arc::new(|why| {
            tracing::error!(
                why,
                "the index of the store is stuck; no acknowledged data is lost; restart the server"
            );
            std::process::exit(74)
        }),
        notice_copies: config.store.notice_copies,
        ..store::Options::default()
    };
    let dir = store_dir(&config.data);
    let opened = tokio::task::spawn_blocking(move || Embedded::open(&dir, options)).await;
    let opened = opened.map_err(Failure::other)??;
    let report = &opened.report;
    if report.rebuilt_index.is_some() || !report.repaired.is_empty() || report.unreadable > 0 {
        tracing::warn!("the store was repaired: {report}");
    }
    Ok(Arc::new(opened.store))
}
