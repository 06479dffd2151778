//! Opening: the schema and its version, the entry of this process, and its background tasks.

use crate::{
    Error,
    postgres::{
        Postgres, PostgresOptions,
        commit::writer::Writer,
        error::{Retries, is_transient, unavailable},
        fair_queue::FairQueue,
        migrations::migrator,
        notifications, processes,
        shared::{Counters, Shared},
    },
    random,
    sync::lock_unpoisoned,
};
use sqlx::{
    Connection as _, Executor as _, PgConnection, PgPool, Row as _,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    str::FromStr as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

/// The longest pause of a transaction between two statements, in milliseconds.
const IDLE_TIMEOUT_MS: &str = "3000";
/// The most waiting requests; more callers wait.
const INBOX: usize = 4_096;

/// The schema of a database compared with this version.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Schema {
    /// The migrations of the database.
    pub has: Vec<i64>,
    /// The migrations that this version would apply.
    pub lacks: Vec<i64>,
    /// The oldest schema that a program may know and still use it.
    pub compatible: i64,
    /// The newest schema that this version knows.
    pub knows: i64,
}

impl Postgres {
    /// Opens the store, which is created or migrated first: one process does it, and the others wait.
    ///
    /// # Errors
    /// [`Error::Refused`] when the URL or schema is wrong, or the database is newer than this version understands;
    /// [`Error::Unavailable`] when it cannot be reached.
    pub async fn open(options: PostgresOptions) -> Result<Self, Error> {
        let pool = pool(&options)?;
        wait_for_database(&pool, &options).await?;
        migrate(&pool, &options).await?;
        let id = random::name().map_err(|why| Error::Unavailable { why })?;
        let mut shared = Shared {
            pool,
            id,
            fair_queue: Mutex::new(FairQueue::default()),
            notifications: Notify::new(),
            lineage: Uuid::nil(),
            seen: AtomicU64::new(0),
            parts: AtomicI64::new(-1),
            location: Mutex::default(),
            counters: Counters::default(),
            options,
        };
        shared.lineage = shared.lineage().await?;
        shared.load_watermark();
        let shared = Arc::new(shared);
        shared.record_opened_location().await?;
        shared.check_watermark().await.map_err(|error| unavailable(&error))?;
        shared.register().await?;
        if let Err(error) = shared.create_partitions_ahead().await {
            tracing::warn!(%error, "the next partitions of the history could not be created yet");
        }
        let (inbox, requests) = mpsc::channel(INBOX);
        let writer = Writer { shared: shared.clone(), inbox: requests, batch: 0 };
        let tasks = vec![
            tokio::spawn(writer.run()),
            tokio::spawn(notifications::run(shared.clone())),
            tokio::spawn(processes::heartbeat(shared.clone())),
        ];
        Ok(Self { shared, inbox, tasks: Mutex::new(tasks) })
    }

    /// Returns the schema of the database at `options` compared with this version. Changes nothing.
    ///
    /// # Errors
    /// Same as [`Postgres::open`].
    pub async fn schema(options: &PostgresOptions) -> Result<Schema, Error> {
        let pool = pool(options)?;
        let schema = schema(&pool).await;
        pool.close().await;
        schema
    }

    /// Returns the tasks of this process, ends its entry in the list of writers, and closes the connections.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the database is unavailable; leases then expire.
    pub async fn close(&self) -> Result<(), Error> {
        self.shared.save_watermark();
        let ended = self.shared.unregister().await;
        for task in lock_unpoisoned(&self.tasks).drain(..) {
            task.abort();
        }
        self.shared.pool.close().await;
        ended
    }
}

fn pool(options: &PostgresOptions) -> Result<PgPool, Error> {
    let named = options.schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if options.schema.is_empty() || options.schema.len() > 48 || !named {
        let why = format!("schema {:?}: use up to 48 of a-z, 0-9 and _", options.schema);
        return Err(Error::Refused { why });
    }
    let connect = PgConnectOptions::from_str(&options.url)
        .map_err(|error| Error::Refused { why: format!("the database's URL: {error}") })?;
    let millis = options.statement_timeout.as_millis().to_string();
    // Well below the limit of a statement, to distinguish a lock wait from a slow statement.
    let lock = if options.statement_timeout.is_zero() {
        600_000
    } else {
        (options.statement_timeout / 3).as_millis().max(1)
    };
    let lock = lock.to_string();
    let connect = connect.application_name(&format!("tenure {}", options.name)).options([
        ("search_path", options.schema.as_str()),
        ("statement_timeout", &millis),
        ("lock_timeout", &lock),
        ("client_min_messages", "warning"),
        // A process that stalls with the lock of commits blocks all others.
        ("idle_in_transaction_session_timeout", IDLE_TIMEOUT_MS),
        // There is an index for everything; a plan made for a small table, with a full scan, would be kept.
        ("enable_seqscan", "off"),
        // Statements of a millisecond must not be compiled first; `head` has one row without an index, and would
        // trigger it.
        ("jit", "off"),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(options.connections.max(3))
        .acquire_timeout(Duration::from_secs(5))
        .test_before_acquire(false)
        .connect_lazy_with(connect))
}

/// Waits for an unavailable database, as long as for everything else: both may have been started at once.
async fn wait_for_database(pool: &PgPool, options: &PostgresOptions) -> Result<(), Error> {
    let mut retries = Retries::within(options.retry_timeout);
    let mut told = false;
    let connect = pool.connect_options();
    // Not through the pool, whose errors only say that it has waited too long.
    while let Err(error) = PgConnection::connect_with(&connect).await {
        let (host, port) = (connect.get_host(), connect.get_port());
        if !is_transient(&error) || !retries.wait().await {
            return Err(Error::Unavailable { why: format!("the database at {host}:{port}: {error}") });
        }
        if !told {
            tracing::warn!(host, port, %error, patience = ?options.retry_timeout, "the database is unavailable; waiting for it");
            told = true;
        }
    }
    Ok(())
}

/// Migrates the schema, unless the database needs a newer version of Tenure.
async fn migrate(pool: &PgPool, options: &PostgresOptions) -> Result<(), Error> {
    let refused = |error: sqlx::migrate::MigrateError| match error {
        sqlx::migrate::MigrateError::Execute(error) => unavailable(&error),
        other => Error::Refused { why: format!("the database's schema {}: {other}", options.schema) },
    };
    let exists = format!("CREATE SCHEMA IF NOT EXISTS {}", options.schema);
    let found: Option<i32> = sqlx::query_scalar("SELECT 1 FROM pg_namespace WHERE nspname = $1")
        .bind(&options.schema)
        .fetch_optional(pool)
        .await
        .map_err(|error| unavailable(&error))?;
    if found.is_none() {
        // Two processes that start at once may both try.
        let made = pool.execute(sqlx::AssertSqlSafe(exists)).await;
        if let Err(error) = made
            && error.as_database_error().and_then(|error| error.code()).as_deref() != Some("23505")
        {
            return Err(unavailable(&error));
        }
    }
    let schema = schema(pool).await?;
    if schema.compatible > schema.knows {
        let why = format!(
            "the database has schema {}, and needs a version of Tenure with schema {} or later; this version has schema {}: run a newer version",
            schema.has.last().copied().unwrap_or_default(),
            schema.compatible,
            schema.knows
        );
        return Err(Error::Refused { why });
    }
    // Additions of a later version are ignored, as long as it says that this is safe.
    let mut known = migrator();
    known.set_ignore_missing(true);
    // Migrations may take as long as they need, also those of another process; only waits for locks are limited.
    let patient = self::pool(&PostgresOptions { statement_timeout: Duration::ZERO, ..options.clone() })?;
    let done = known.run(&patient).await.map_err(refused);
    patient.close().await;
    done
}

async fn schema(pool: &PgPool) -> Result<Schema, Error> {
    let failed = |error: sqlx::Error| unavailable(&error);
    let known: Vec<i64> = migrator().iter().map(|migration| migration.version).collect();
    let knows = known.last().copied().unwrap_or_default();
    let there: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(pool)
        .await
        .map_err(failed)?;
    if !there {
        return Ok(Schema { has: Vec::new(), lacks: known, compatible: 0, knows });
    }
    let rows = sqlx::query("SELECT version FROM _sqlx_migrations WHERE success ORDER BY version");
    let rows = rows.fetch_all(pool).await.map_err(failed)?;
    let has: Vec<i64> = rows.iter().filter_map(|row| row.try_get("version").ok()).collect();
    let compatible = if has.is_empty() {
        0
    } else {
        let found = sqlx::query_scalar::<_, i32>("SELECT compatible FROM head").fetch_optional(pool).await;
        i64::from(found.map_err(failed)?.unwrap_or_default())
    };
    let lacks = known.into_iter().filter(|version| !has.contains(version)).collect();
    Ok(Schema { has, lacks, compatible, knows })
}
