//! Holds a database: by a command, because it is a copy, or because it is behind a commit that was seen.

use super::{
    commit::LOCK,
    error::unavailable,
    notifications::NOTIFY,
    row::{to_i64, to_u64},
    shared::Shared,
};
use crate::{Error, Hold, Timestamp};
use sqlx::{PgConnection, Row as _, postgres::PgRow};
use uuid::Uuid;

/// Counts scheduled tasks as delivered before, unless that was done when it was held.
const COUNT: &str = "UPDATE tasks SET deliveries = 1 WHERE deliveries = 0 AND NOT EXISTS (SELECT FROM hold)";
const HOLD: &str = "INSERT INTO hold (since, why) VALUES ($1, $2) ON CONFLICT DO NOTHING";
/// Targets know the epochs of leases since the copy was made, and refuse lower ones.
const ADVANCE_EPOCHS: &str = "SELECT setval('epochs', last_value + 1099511627776) FROM epochs";
const HELD: &str = "SELECT since, why FROM hold";
const UNHOLD: &str = "DELETE FROM hold WHERE since = $1";
/// As long as it takes: there may be many tasks.
const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";
const LINEAGE: &str = "SELECT lineage FROM head";
const PLACE: &str = "SELECT place FROM head FOR UPDATE";
const SETTLE: &str = "UPDATE head SET place = $1";
const SERVER: &str = "SELECT system_identifier::text FROM pg_control_system()";
const OIDS: &str = "SELECT d.oid::text || '/' || n.oid::text FROM pg_database d, pg_namespace n \
    WHERE d.datname = current_database() AND n.nspname = $1";

pub(super) fn hold_from_row(row: &PgRow) -> Result<Hold, sqlx::Error> {
    Ok(Hold { since: Timestamp(to_u64(row.try_get("since")?)), why: row.try_get("why")? })
}

/// Holds the database, in a transaction of the caller that has the lock of commits.
pub(super) async fn insert_hold(on: &mut PgConnection, hold: &Hold) -> Result<(), sqlx::Error> {
    sqlx::query(NO_TIMEOUT).execute(&mut *on).await?;
    sqlx::query(COUNT).execute(&mut *on).await?;
    sqlx::query(ADVANCE_EPOCHS).execute(&mut *on).await?;
    let query = sqlx::query(HOLD).bind(to_i64(hold.since.0)).bind(&hold.why);
    if query.execute(on).await?.rows_affected() > 0 {
        tracing::error!(why = hold.why, "the store is held: no work runs until an operator releases it");
    }
    Ok(())
}

impl Shared {
    pub(super) async fn hold(&self, hold: &Hold) -> Result<(), Error> {
        self.with_retries(|| async move {
            let mut on = self.pool.begin().await?;
            sqlx::query(LOCK).execute(&mut *on).await?;
            insert_hold(&mut on, hold).await?;
            on.commit().await
        })
        .await
    }

    pub(super) async fn current_hold(&self) -> Result<Option<Hold>, Error> {
        self.with_retries(|| async move {
            sqlx::query(HELD).fetch_optional(&self.pool).await?.as_ref().map(hold_from_row).transpose()
        })
        .await
    }

    pub(super) async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.with_retries(|| async move {
            let ended = sqlx::query(UNHOLD).bind(to_i64(since.0)).execute(&self.pool).await?.rows_affected();
            sqlx::query(NOTIFY).bind(self.channel()).execute(&self.pool).await?;
            Ok(ended > 0)
        })
        .await
    }

    pub(super) async fn lineage(&self) -> Result<Uuid, Error> {
        self.with_retries(|| async move { sqlx::query_scalar(LINEAGE).fetch_one(&self.pool).await }).await
    }

    /// Holds the database if it is not where it was created, and records where it is.
    pub(super) async fn record_location(&self) -> Result<(), Error> {
        let oids: String = sqlx::query_scalar(OIDS)
            .bind(&self.options.schema)
            .fetch_one(&self.pool)
            .await
            .map_err(|error| unavailable(&error))?;
        // Not every server that speaks the protocol reports its identity, or reports it to every user.
        let server: Option<String> =
            sqlx::query_scalar(SERVER).fetch_optional(&self.pool).await.unwrap_or_default();
        let here = format!("{}/{oids}", server.as_deref().unwrap_or("?"));
        let here = &here;
        self.with_retries(|| async move {
            let mut on = self.pool.begin().await?;
            let place: Option<String> = sqlx::query_scalar(PLACE).fetch_one(&mut *on).await?;
            match place {
                Some(place) if place == *here => return on.rollback().await,
                Some(place) if !is_same(&place, here) => {
                    let why = format!("it was created in another place ({place}) than its present one ({here}): it was restored or moved");
                    insert_hold(&mut on, &Hold::starting_now(why)).await?;
                }
                Some(_) | None => {}
            }
            sqlx::query(SETTLE).bind(here).execute(&mut *on).await?;
            on.commit().await
        })
        .await
    }
}

/// Returns true if two places are equal, as far as both are known.
fn is_same(one: &str, other: &str) -> bool {
    one.split('/').zip(other.split('/')).all(|(one, other)| one == other || one == "?" || other == "?")
}
