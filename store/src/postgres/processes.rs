//! The processes that write: their names, their heartbeats, and their leases.

use super::{Postgres, error::unavailable, row::to_u64, shared::Shared};
use crate::Error;
use sqlx::Row as _;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use uuid::Uuid;

/// The interval of checks for empty partitions.
const TIDY_EVERY: Duration = Duration::from_secs(3_600);
const REGISTER: &str =
    "INSERT INTO engines (id, name, version) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
const HEARTBEAT: &str = "UPDATE engines SET beat_at = now() WHERE id = $1 AND ended_at IS NULL";
const END: &str = "UPDATE engines SET ended_at = now() WHERE id = $1";
/// Its tasks become due for other processes, which are notified. They count as delivered, because they may have been
/// begun.
const HAND_BACK: &str = "WITH freed AS (UPDATE tasks SET holder = NULL, epoch = NULL, until = NULL, available = due \
    WHERE holder = $1 AND epoch IS NOT NULL RETURNING 1) SELECT pg_notify($2, '') FROM freed LIMIT 1";
/// Deletes processes that ended or fell silent long ago.
const DELETE_OLD: &str = "DELETE FROM engines WHERE coalesce(ended_at, beat_at) < now() - interval '7 days'";
const LIST: &str = "\
SELECT e.id, e.name, e.version, e.batch, e.ended_at IS NOT NULL AS ended,
    (extract(epoch FROM e.started_at) * 1000)::bigint AS started_at,
    (extract(epoch FROM now() - e.beat_at) * 1000)::bigint AS silent_ms,
    coalesce(t.held, 0) AS held
FROM engines e
LEFT JOIN (SELECT holder, count(*) AS held FROM tasks WHERE epoch IS NOT NULL GROUP BY holder) t
    ON t.holder = e.name || '/' || e.id
ORDER BY e.started_at, e.id";

/// A process that writes to the database, or did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EngineProcess {
    /// The id of this start of the process.
    pub id: Uuid,
    /// The name, which need not be unique.
    pub name: String,
    /// The version of Tenure.
    pub version: String,
    /// When it started.
    pub started_at: crate::Timestamp,
    /// The time since its last heartbeat, in milliseconds, by the database's clock.
    pub silent_ms: u64,
    /// True if it has ended orderly.
    pub ended: bool,
    /// The number of its last batch of commits.
    pub batch: u64,
    /// The number of its leases.
    pub held: u64,
}

impl Postgres {
    /// Returns the holder of its leases: its name and the id of this start, which is unique.
    #[must_use]
    pub fn lease_holder(&self) -> String {
        format!("{}/{}", self.shared.options.name, self.shared.id)
    }

    /// Returns the time of the database's clock, without retries: the caller measures how long the query took.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the database is unavailable.
    pub async fn database_time(&self) -> Result<crate::Timestamp, Error> {
        const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let time = sqlx::query_scalar::<_, i64>(NOW).fetch_one(&self.shared.pool).await;
        let millis = time.map_err(|error| unavailable(&error))?;
        Ok(crate::Timestamp(u64::try_from(millis).unwrap_or_default()))
    }

    /// All processes that write, or did within a week, the oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is away.
    pub async fn engine_processes(&self) -> Result<Vec<EngineProcess>, Error> {
        self.shared.engines().await
    }

    /// Fences a process permanently: its leases expire, and its late writes are refused. Returns false if there is no
    /// such process.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the database is unavailable.
    pub async fn fence_process(&self, id: Uuid) -> Result<bool, Error> {
        let barred = self
            .shared
            .with_retries(|| async move {
                Ok(sqlx::query(END).bind(id).execute(&self.shared.pool).await?.rows_affected())
            })
            .await?;
        Ok(barred > 0)
    }

    /// Creates the next partitions of the history, drops the full ones that have become empty, and returns their
    /// names. Every process does it each hour.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the database is unavailable, or others are reading the history; the next
    /// call drops them.
    pub async fn drop_empty_partitions(&self) -> Result<Vec<String>, Error> {
        self.shared.create_partitions_ahead().await.map_err(|error| unavailable(&error))?;
        self.shared.drop_empty_partitions().await.map_err(|error| unavailable(&error))
    }
}

impl Shared {
    pub(super) async fn register(&self) -> Result<(), Error> {
        self.with_retries(|| async move {
            sqlx::query(DELETE_OLD).execute(&self.pool).await?;
            let query = sqlx::query(REGISTER).bind(self.id).bind(&self.options.name);
            query.bind(env!("CARGO_PKG_VERSION")).execute(&self.pool).await.map(drop)
        })
        .await
    }

    pub(super) async fn unregister(&self) -> Result<(), Error> {
        let taking_leave = async {
            let mut on = self.pool.begin().await?;
            sqlx::query(END).bind(self.id).execute(&mut *on).await?;
            let holder = format!("{}/{}", self.options.name, self.id);
            sqlx::query(HAND_BACK).bind(holder).bind(self.channel()).execute(&mut *on).await?;
            on.commit().await
        };
        taking_leave.await.map_err(|error| unavailable(&error))
    }

    async fn engines(&self) -> Result<Vec<EngineProcess>, Error> {
        self.with_retries(|| async move {
            let rows = sqlx::query(LIST).fetch_all(&self.pool).await?;
            let engine = |row: &sqlx::postgres::PgRow| {
                Ok(EngineProcess {
                    id: row.try_get("id")?,
                    name: row.try_get("name")?,
                    version: row.try_get("version")?,
                    started_at: crate::Timestamp(to_u64(row.try_get("started_at")?)),
                    silent_ms: to_u64(row.try_get("silent_ms")?),
                    ended: row.try_get("ended")?,
                    batch: to_u64(row.try_get("batch")?),
                    held: to_u64(row.try_get("held")?),
                })
            };
            rows.iter().map(engine).collect()
        })
        .await
    }
}

/// Sends heartbeats until the process ends.
pub(super) async fn heartbeat(shared: Arc<Shared>) {
    let mut tidied = Instant::now();
    loop {
        tokio::time::sleep(shared.options.heartbeat).await;
        if tidied.elapsed() > TIDY_EVERY {
            tidied = Instant::now();
            if let Err(error) = shared.drop_empty_partitions().await {
                tracing::debug!(%error, "empty partitions of the history were not dropped; trying again in an hour");
            }
        }
        if let Err(error) = shared.create_partitions_ahead().await {
            tracing::warn!(%error, "the next partitions of the history could not be created; trying again");
        }
        if let Err(error) = sqlx::query(HEARTBEAT).bind(shared.id).execute(&shared.pool).await {
            tracing::debug!(%error, "the heartbeat failed");
            continue;
        }
        if let Err(error) = shared.check_watermark().await {
            tracing::debug!(%error, "the last commit of the database could not be read");
        }
        if let Err(error) = shared.follow_location().await {
            tracing::debug!(%error, "the place of the database could not be read");
        }
        shared.save_watermark();
    }
}
