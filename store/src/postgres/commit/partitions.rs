//! The partitions of the history: each is a table, created well in advance, and dropped once it is old and empty.
//!
//! The history is erased execution by execution, because age is not the only condition. An empty table is then
//! dropped completely, which frees its space.

use super::LOCK;
use crate::{
    Sequence,
    postgres::{row::to_i64, shared::Shared},
};
use sqlx::PgConnection;
use std::sync::atomic::Ordering;

/// The commits in one partition.
const PART: i64 = 10_000_000;
/// The number of partitions beyond the current one.
const AHEAD: i64 = 2;
const HEAD: &str = "SELECT sequence FROM head";
const PARTS: &str = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
    WHERE i.inhparent = 'journal'::regclass ORDER BY c.relname";
/// Readers and writers may wait while a partition is created or dropped, so that operation must not wait long itself.
const SHORT_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '1s'";

impl Shared {
    /// Creates the next partitions, unless they are known to this process. Returns true if it did anything.
    pub(crate) async fn create_partitions_ahead(&self) -> Result<bool, sqlx::Error> {
        let wanted = |last: i64| (last / PART).saturating_add(AHEAD);
        if wanted(to_i64(self.seen.load(Ordering::Acquire))) <= self.parts.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut on = self.pool.begin().await?;
        sqlx::query(SHORT_LOCK_TIMEOUT).execute(&mut *on).await?;
        let last: i64 = sqlx::query_scalar(HEAD).fetch_one(&mut *on).await?;
        for part in last / PART..=wanted(last) {
            create_partition(&mut on, part).await?;
        }
        on.commit().await?;
        self.parts.fetch_max(wanted(last), Ordering::AcqRel);
        Ok(true)
    }

    /// Creates the partitions for a batch of commits, unless they are known to this process.
    pub(crate) async fn expect_partitions(
        &self,
        on: &mut PgConnection,
        from: Sequence,
        to: Sequence,
    ) -> Result<(), sqlx::Error> {
        if part_of(to) <= self.parts.load(Ordering::Acquire) {
            return Ok(());
        }
        create_partitions(on, from, to).await
    }

    pub(crate) async fn drop_empty_partitions(&self) -> Result<Vec<String>, sqlx::Error> {
        let parts: Vec<String> = sqlx::query_scalar(PARTS).fetch_all(&self.pool).await?;
        let mut dropped = Vec::new();
        for part in parts {
            if self.drop_empty(&part).await? {
                tracing::info!(part, "dropped an old, empty partition of the history");
                dropped.push(part);
            }
        }
        Ok(dropped)
    }

    async fn drop_empty(&self, part: &str) -> Result<bool, sqlx::Error> {
        let number = part.strip_prefix("journal_").and_then(|number| number.parse::<i64>().ok());
        let Some(number) = number else { return Ok(false) };
        let some = format!("SELECT EXISTS (SELECT FROM journal_{number})");
        // Most are not empty, and this check needs no lock.
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

/// Creates the missing partitions for the commits after `from` up to `to`. Partitions are created in advance, so a
/// commit finds them, unless the database was unavailable or locked for as long as the last of them took to fill.
pub(crate) async fn create_partitions(
    on: &mut PgConnection,
    from: Sequence,
    to: Sequence,
) -> Result<(), sqlx::Error> {
    for part in part_of(from)..=part_of(to) {
        create_partition(on, part).await?;
    }
    Ok(())
}

/// Creates a partition as a table and attaches it, if it is missing. It does not conflict with readers or writers of
/// the history, so a backup may continue.
async fn create_partition(on: &mut PgConnection, part: i64) -> Result<(), sqlx::Error> {
    let exists = format!("SELECT to_regclass('journal_{part}') IS NOT NULL");
    if sqlx::query_scalar(sqlx::AssertSqlSafe(exists.clone())).fetch_one(&mut *on).await? {
        return Ok(());
    }
    // Of several processes, one creates it; the others find it.
    sqlx::query("LOCK TABLE journal IN SHARE UPDATE EXCLUSIVE MODE").execute(&mut *on).await?;
    if sqlx::query_scalar(sqlx::AssertSqlSafe(exists)).fetch_one(&mut *on).await? {
        return Ok(());
    }
    let (first, last) = (part.saturating_mul(PART), part.saturating_add(1).saturating_mul(PART));
    let table =
        format!("CREATE TABLE journal_{part} (LIKE journal INCLUDING DEFAULTS INCLUDING CONSTRAINTS)");
    sqlx::query(sqlx::AssertSqlSafe(table)).execute(&mut *on).await?;
    let attach =
        format!("ALTER TABLE journal ATTACH PARTITION journal_{part} FOR VALUES FROM ({first}) TO ({last})");
    sqlx::query(sqlx::AssertSqlSafe(attach)).execute(&mut *on).await?;
    tracing::info!(part, "created the next partition of the history");
    Ok(())
}

/// Returns the partition of a commit.
fn part_of(sequence: Sequence) -> i64 {
    to_i64(sequence.0) / PART
}
