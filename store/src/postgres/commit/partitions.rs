//! The parts of the history: each is a table of its own, made well before it is needed, and dropped once it is old and empty.
//!
//! What is forgotten is forgotten execution by execution, for what keeps it is not its age alone; a table that is empty then goes whole,
//! with the room that it took.

use super::LOCK;
use crate::{
    Sequence,
    postgres::{row::to_i64, shared::Shared},
};
use sqlx::PgConnection;

/// Commits that a part covers.
const PART: i64 = 10_000_000;
const PARTS: &str = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
    WHERE i.inhparent = 'journal'::regclass ORDER BY c.relname";
/// Readers and writers wait for whoever drops a part, so that one waits for nobody.
const SHORT_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '1s'";

impl Shared {
    pub(crate) async fn drop_empty_partitions(&self) -> Result<Vec<String>, sqlx::Error> {
        let parts: Vec<String> = sqlx::query_scalar(PARTS).fetch_all(&self.pool).await?;
        let mut dropped = Vec::new();
        for part in parts {
            if self.drop_empty(&part).await? {
                tracing::info!(part, "an old part of the history is empty; it was dropped");
                dropped.push(part);
            }
        }
        Ok(dropped)
    }

    async fn drop_empty(&self, part: &str) -> Result<bool, sqlx::Error> {
        let number = part.strip_prefix("journal_").and_then(|number| number.parse::<i64>().ok());
        let Some(number) = number else { return Ok(false) };
        let some = format!("SELECT EXISTS (SELECT FROM journal_{number})");
        // Most are not empty, and nobody has to wait to hear it.
        if sqlx::query_scalar(sqlx::AssertSqlSafe(some.clone())).fetch_one(&self.pool).await? {
            return Ok(false);
        }
        let mut on = self.pool.begin().await?;
        let last: i64 = sqlx::query_scalar(LOCK).fetch_one(&mut *on).await?;
        let is_full = number.saturating_add(1).saturating_mul(PART) <= last;
        if !is_full || sqlx::query_scalar(sqlx::AssertSqlSafe(some)).fetch_one(&mut *on).await? {
            on.rollback().await?;
            return Ok(false);
        }
        sqlx::query(SHORT_LOCK_TIMEOUT).execute(&mut *on).await?;
        sqlx::query(sqlx::AssertSqlSafe(format!("DROP TABLE journal_{number}"))).execute(&mut *on).await?;
        on.commit().await?;
        Ok(true)
    }
}

/// Makes the next part of the history when half of the last is filled, so that there is always one to write to.
pub(crate) async fn create_partitions(
    on: &mut PgConnection,
    from: Sequence,
    to: Sequence,
) -> Result<(), sqlx::Error> {
    let part = |sequence: Sequence| to_i64(sequence.0).saturating_add(PART / 2) / PART;
    for part in part(from).saturating_add(1)..=part(to) {
        let (first, last) = (part.saturating_mul(PART), part.saturating_add(1).saturating_mul(PART));
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS journal_{part} PARTITION OF journal FOR VALUES FROM ({first}) TO ({last})"
        );
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *on).await?;
    }
    Ok(())
}
