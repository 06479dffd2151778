//! The processes that write: who they are, when they last spoke, and what they hold.

use super::{Postgres, error::unavailable, row::to_u64, shared::Shared};
use crate::Error;
use sqlx::Row as _;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use uuid::Uuid;

/// How often parts of the history are looked for of which nothing is left.
const TIDY_EVERY: Duration = Duration::from_secs(3_600);
const REGISTER: &str =
    "INSERT INTO engines (id, name, version) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
const HEARTBEAT: &str = "UPDATE engines SET beat_at = now() WHERE id = $1 AND ended_at IS NULL";
const END: &str = "UPDATE engines SET ended_at = now() WHERE id = $1";
/// What it still holds is due as it was, for others, who are told. It counts as delivered: it may have been begun.
const HAND_BACK: &str = "WITH freed AS (UPDATE tasks SET holder = NULL, epoch = NULL, until = NULL, available = due \
    WHERE holder = $1 AND epoch IS NOT NULL RETURNING 1) SELECT pg_notify($2, '') FROM freed LIMIT 1";
/// Those that ended or fell silent long ago are of no interest.
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
    /// Names this one start of it.
    pub id: Uuid,
    /// What it is called; several may bear one name.
    pub name: String,
    /// The version of Tenure.
    pub version: String,
    /// When it began.
    pub started_at: crate::Timestamp,
    /// How long ago it last said that it lives, in milliseconds, by the database's clock.
    pub silent_ms: u64,
    /// Whether it has taken its leave.
    pub ended: bool,
    /// The number of its last batch of commits.
    pub batch: u64,
    /// Tasks that it has leased.
    pub held: u64,
}

impl Postgres {
    /// What this process is called in leases: its name and the id of this start of it, so that no two are taken for one.
    #[must_use]
    pub fn lease_holder(&self) -> String {
        format!("{}/{}", self.shared.options.name, self.shared.id)
    }

    /// Returns what time the database says that it is.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is away.
    pub async fn database_time(&self) -> Result<crate::Timestamp, Error> {
        const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let millis: i64 = self
            .shared
            .with_retries(|| async move { sqlx::query_scalar(NOW).fetch_one(&self.shared.pool).await })
            .await?;
        Ok(crate::Timestamp(u64::try_from(millis).unwrap_or_default()))
    }

    /// All processes that write, or did within a week, the oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is away.
    pub async fn engine_processes(&self) -> Result<Vec<EngineProcess>, Error> {
        self.shared.engines().await
    }

    /// Bars a process from writing for good: what it holds lapses, and what it says late is refused. Says whether there was one.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is away.
    pub async fn fence_process(&self, id: Uuid) -> Result<bool, Error> {
        let barred = self
            .shared
            .with_retries(|| async move {
                Ok(sqlx::query(END).bind(id).execute(&self.shared.pool).await?.rows_affected())
            })
            .await?;
        Ok(barred > 0)
    }

    /// Makes the parts of the history that are written to next, and drops those that are full and of which nothing is left, and names them. Done by every process each hour.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is away, or others read the history just now; what is empty goes the next time.
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

/// Says that this process lives, until it ends.
pub(super) async fn heartbeat(shared: Arc<Shared>) {
    let mut tidied = Instant::now();
    loop {
        tokio::time::sleep(shared.options.heartbeat).await;
        if tidied.elapsed() > TIDY_EVERY {
            tidied = Instant::now();
            if let Err(error) = shared.drop_empty_partitions().await {
                tracing::debug!(%error, "empty parts of the history were not dropped; the next hour will");
            }
        }
        if let Err(error) = shared.create_partitions_ahead().await {
            tracing::warn!(%error, "the next parts of the history could not be made; they are tried again");
        }
        if let Err(error) = sqlx::query(HEARTBEAT).bind(shared.id).execute(&shared.pool).await {
            tracing::debug!(%error, "the database was not told that this process lives");
            continue;
        }
        if let Err(error) = shared.check_watermark().await {
            tracing::debug!(%error, "where the database stands was not heard of");
        }
        if let Err(error) = shared.follow_location().await {
            tracing::debug!(%error, "where the database is was not heard of");
        }
        shared.save_watermark();
    }
}
