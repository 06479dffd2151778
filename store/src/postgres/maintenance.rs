//! Holds a database: by a command, because it is a copy, or because it is behind a commit that was seen.

use super::{
    commit::LOCK,
    error::unavailable,
    notifications::NOTIFY,
    row::{to_i64, to_u64},
    shared::Shared,
};
use crate::{Error, Hold, Timestamp, sync::lock_unpoisoned};
use sqlx::{Connection as _, PgConnection, Row as _, postgres::PgRow};
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// Counts scheduled tasks as delivered before, unless that was done when it was held.
const COUNT: &str = "UPDATE tasks SET deliveries = 1 WHERE deliveries = 0 AND NOT EXISTS (SELECT FROM hold)";
const HOLD: &str = "INSERT INTO hold (since, why) VALUES ($1, $2) ON CONFLICT DO NOTHING";
/// Targets know the epochs of leases since the copy was made, and refuse lower ones.
const ADVANCE_EPOCHS: &str = "SELECT setval('epochs', last_value + 1099511627776) FROM epochs";
const HELD: &str = "SELECT since, why FROM hold";
const UNHOLD: &str = "DELETE FROM hold WHERE since = $1";
/// Changes with every promotion of a replica, at once. Fails on a server that is still a replica.
const TIMELINE: &str = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
/// As long as it takes: there may be many tasks.
const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";
const LINEAGE: &str = "SELECT lineage FROM head";
const PLACE: &str = "SELECT place FROM head FOR UPDATE";
/// True if another server was at work within the last minute.
const OTHERS: &str = "SELECT EXISTS (SELECT FROM engines WHERE id <> $1 AND ended_at IS NULL \
    AND beat_at > now() - interval '1 minute')";
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

    /// Holds the database if it is not where it was created, or if an unknown replica was promoted, and records where
    /// it is. A process without a watermark file, such as a command, leaves the timeline to the servers.
    pub(super) async fn record_location(&self) -> Result<(), Error> {
        let here = self
            .with_retries(|| async move {
                let mut connection = self.pool.acquire().await?;
                // Before the transaction, which a failed query would end, and on the same connection.
                let here = self.location(&mut connection).await?;
                let mut on = connection.begin().await?;
                let place: Option<String> = sqlx::query_scalar(PLACE).fetch_one(&mut *on).await?;
                let settled = place.as_deref().map_or_else(|| here.clone(), |place| merged(place, &here));
                let same = place.as_deref().is_some_and(|place| is_same(place, &here));
                if place.as_ref() == Some(&settled) || (same && self.options.watermark_file.is_none()) {
                    on.rollback().await?;
                    return Ok(here);
                }
                let others: bool = sqlx::query_scalar(OTHERS).bind(self.id).fetch_one(&mut *on).await?;
                let is_known = others || self.seen.load(Ordering::Acquire) > 0;
                if let Some(why) = place.and_then(|place| doubt(&place, &here, is_known)) {
                    insert_hold(&mut on, &Hold::starting_now(why)).await?;
                }
                sqlx::query(SETTLE).bind(settled).execute(&mut *on).await?;
                on.commit().await?;
                Ok(here)
            })
            .await?;
        *lock_unpoisoned(&self.location) = here;
        Ok(())
    }

    /// Records where the database is if that has changed since this process looked last, as after a failover.
    pub(super) async fn follow_location(&self) -> Result<(), Error> {
        let mut connection = self.pool.acquire().await.map_err(|error| unavailable(&error))?;
        let here = self.location(&mut connection).await.map_err(|error| unavailable(&error))?;
        drop(connection);
        if *lock_unpoisoned(&self.location) == here { Ok(()) } else { self.record_location().await }
    }

    /// Returns the place of the database: `SERVER/DATABASE/SCHEMA/TIMELINE`, with `?` for unknown parts.
    async fn location(&self, on: &mut PgConnection) -> Result<String, sqlx::Error> {
        let oids = sqlx::query_scalar::<_, String>(OIDS).bind(&self.options.schema);
        let oids = oids.fetch_one(&mut *on).await?;
        // Not every server that speaks the protocol reports its identity, or reports it to every user.
        let server = told(sqlx::query_scalar(SERVER).fetch_optional(&mut *on).await)?;
        let timeline = told(sqlx::query_scalar(TIMELINE).fetch_optional(&mut *on).await)?;
        Ok(format!("{server}/{oids}/{timeline}"))
    }
}

/// Returns a part of a place: `?` if the database refuses it. A broken connection says nothing.
fn told(part: Result<Option<String>, sqlx::Error>) -> Result<String, sqlx::Error> {
    match part {
        Ok(part) => Ok(part.unwrap_or_else(|| "?".to_owned())),
        Err(sqlx::Error::Database(_)) => Ok("?".to_owned()),
        Err(error) => Err(error),
    }
}

/// How many parts of a place say which database it is; the timeline follows them, in places that newer versions wrote.
const OF_DATABASE: usize = 3;

/// Returns why a database that was in `place` and is `here` now is held. Servers at work, and a process that has seen
/// its commits, detect commits that were lost with a promotion (see the watermark). Any other process cannot
/// distinguish a failover from a copy.
fn doubt(place: &str, here: &str, is_known: bool) -> Option<String> {
    if !is_same(place, here) {
        return Some(format!(
            "it was created in another place ({place}) than its present one ({here}): it was restored or moved"
        ));
    }
    let timeline =
        |place: &str| place.split('/').nth(OF_DATABASE).filter(|part| *part != "?").map(ToOwned::to_owned);
    let (before, now) = (timeline(place)?, timeline(here)?);
    (before != now && !is_known).then(|| {
        format!(
            "a replica was promoted (timeline {before} became {now}), and no server that was at work before says whether commits were \
             lost, or whether this is a copy beside the database that goes on"
        )
    })
}

/// Returns true if both places are of one server, database and schema, as far as either is known.
fn is_same(one: &str, other: &str) -> bool {
    let mut parts = one.split('/').zip(other.split('/')).take(OF_DATABASE);
    parts.all(|(one, other)| one == other || one == "?" || other == "?")
}

/// Returns the place to store after `place`: `here`, with the stored parts of the same database that are unknown now.
fn merged(place: &str, here: &str) -> String {
    if !is_same(place, here) {
        return here.to_owned();
    }
    let mut stored = place.split('/');
    let part = |part| {
        let before = stored.next().unwrap_or(part);
        if part == "?" { before } else { part }
    };
    here.split('/').map(part).collect::<Vec<&str>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_with_an_unknown_state_stays_as_stored() {
        assert_eq!(merged(HOME, "?/16384/2200/?"), HOME);
        assert_eq!(merged("7301/16384/2200", HOME), HOME);
        assert_eq!(merged("7301/16384/2200", "?/16384/2200/?"), "7301/16384/2200/?");
        assert_eq!(merged(HOME, "?/16385/2200/?"), "?/16385/2200/?");
    }

    #[test]
    fn only_a_refusal_of_the_database_makes_a_part_unknown() {
        assert_eq!(told(Ok(None)).unwrap(), "?");
        assert!(told(Err(sqlx::Error::PoolTimedOut)).is_err());
    }

    const HOME: &str = "7301/16384/2200/00000001";

    #[test]
    fn another_server_database_or_schema_is_another_place_for_every_observer() {
        for here in ["7302/16384/2200/00000001", "7301/16385/2200/00000001", "7301/16384/2201/00000001"] {
            for has_seen_it in [false, true] {
                assert!(
                    doubt(HOME, here, has_seen_it).is_some_and(|why| why.contains("another place")),
                    "{here}"
                );
            }
        }
    }

    #[test]
    fn a_promoted_replica_is_held_unless_a_server_with_its_commits_finds_it() {
        let promoted = "7301/16384/2200/00000002";
        assert!(doubt(HOME, promoted, false).is_some_and(|why| why.contains("promoted")));
        assert_eq!(doubt(HOME, promoted, true), None);
        assert_eq!(doubt(HOME, HOME, false), None);
    }

    #[test]
    fn a_place_without_a_timeline_belongs_to_an_earlier_version_or_a_server_without_one() {
        for place in ["7301/16384/2200", "7301/16384/2200/?", "?/16384/2200"] {
            assert_eq!(doubt(place, "7301/16384/2200/00000002", false), None, "{place}");
        }
    }
}
