//! Holding a database: by hand, because it is a copy, or because it stands before what somebody has seen of it.

use super::{
    Shared,
    error::unavailable,
    row::{big, small},
};
use crate::{Error, Hold, Sequence, Timestamp};
use sqlx::{PgConnection, Row as _, postgres::PgRow};
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// Counts what is scheduled as handed out before, unless that was done when it was held.
const COUNT: &str = "UPDATE tasks SET deliveries = 1 WHERE deliveries = 0 AND NOT EXISTS (SELECT FROM hold)";
const HOLD: &str = "INSERT INTO hold (since, why) VALUES ($1, $2) ON CONFLICT DO NOTHING";
/// Targets know the tokens that were given out since the copy was made, and refuse lower ones.
const LEAP: &str = "SELECT setval('epochs', last_value + 1099511627776) FROM epochs";
const HELD: &str = "SELECT since, why FROM hold";
const UNHOLD: &str = "DELETE FROM hold WHERE since = $1";
/// As long as it takes: there may be many tasks.
const PATIENT: &str = "SET LOCAL statement_timeout = 0";
const LINEAGE: &str = "SELECT lineage FROM head";
const SEQUENCE: &str = "SELECT sequence FROM head";
const PLACE: &str = "SELECT place FROM head FOR UPDATE";
const SETTLE: &str = "UPDATE head SET place = $1";
const SERVER: &str = "SELECT system_identifier::text FROM pg_control_system()";
const OIDS: &str = "SELECT d.oid::text || '/' || n.oid::text FROM pg_database d, pg_namespace n \
    WHERE d.datname = current_database() AND n.nspname = $1";

pub(super) fn held(row: &PgRow) -> Result<Hold, sqlx::Error> {
    Ok(Hold { since: Timestamp(small(row.try_get("since")?)), why: row.try_get("why")? })
}

/// Holds, within a transaction of the caller's that has the lock of commits.
pub(super) async fn hold_on(on: &mut PgConnection, hold: &Hold) -> Result<(), sqlx::Error> {
    sqlx::query(PATIENT).execute(&mut *on).await?;
    sqlx::query(COUNT).execute(&mut *on).await?;
    sqlx::query(LEAP).execute(&mut *on).await?;
    let query = sqlx::query(HOLD).bind(big(hold.since.0)).bind(&hold.why);
    if query.execute(on).await?.rows_affected() > 0 {
        tracing::error!(why = hold.why, "the store is held: nothing is performed until somebody lets it go");
    }
    Ok(())
}

impl Shared {
    pub(super) async fn hold(&self, hold: &Hold) -> Result<(), Error> {
        self.retried(|| async move {
            let mut on = self.pool.begin().await?;
            sqlx::query(crate::postgres::commit::batch::LOCK).execute(&mut *on).await?;
            hold_on(&mut on, hold).await?;
            on.commit().await
        })
        .await
    }

    pub(super) async fn held(&self) -> Result<Option<Hold>, Error> {
        self.retried(|| async move {
            sqlx::query(HELD).fetch_optional(&self.pool).await?.as_ref().map(held).transpose()
        })
        .await
    }

    pub(super) async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.retried(|| async move {
            let ended = sqlx::query(UNHOLD).bind(big(since.0)).execute(&self.pool).await?.rows_affected();
            sqlx::query(crate::postgres::commit::batch::NOTIFY)
                .bind(self.channel())
                .execute(&self.pool)
                .await?;
            Ok(ended > 0)
        })
        .await
    }

    pub(super) async fn lineage(&self) -> Result<Uuid, Error> {
        self.retried(|| async move { sqlx::query_scalar(LINEAGE).fetch_one(&self.pool).await }).await
    }

    /// Holds the database if it is not where it was made, and remembers where it is.
    pub(super) async fn settle(&self) -> Result<(), Error> {
        let oids: String = sqlx::query_scalar(OIDS)
            .bind(&self.options.schema)
            .fetch_one(&self.pool)
            .await
            .map_err(|error| unavailable(&error))?;
        // Not every server that speaks the protocol says who it is, and not to everybody.
        let server: Option<String> =
            sqlx::query_scalar(SERVER).fetch_optional(&self.pool).await.unwrap_or_default();
        let here = format!("{}/{oids}", server.as_deref().unwrap_or("?"));
        let here = &here;
        self.retried(|| async move {
            let mut on = self.pool.begin().await?;
            let place: Option<String> = sqlx::query_scalar(PLACE).fetch_one(&mut *on).await?;
            match place {
                Some(place) if place == *here => return on.rollback().await,
                Some(place) if !is_same(&place, here) => {
                    let why = format!("it was made in another place ({place}) than it is in ({here}): it was restored, or moved");
                    hold_on(&mut on, &Hold::begun(why)).await?;
                }
                Some(_) | None => {}
            }
            sqlx::query(SETTLE).bind(here).execute(&mut *on).await?;
            on.commit().await
        })
        .await
    }

    /// Remembers that the database stood at `sequence`.
    pub(super) fn saw(&self, sequence: Sequence) {
        self.seen.fetch_max(sequence.0, Ordering::AcqRel);
    }

    /// Holds the database if it stands before what this process has seen of it. `on` has the lock of commits. Says whether it did.
    pub(super) async fn look_back(&self, on: &mut PgConnection, at: Sequence) -> Result<bool, sqlx::Error> {
        let seen = self.seen.load(Ordering::Acquire);
        if at.0 >= seen {
            return Ok(false);
        }
        let why = format!(
            "it stands at commit {}, and {} has seen commit {seen}: it was restored, or failed over to a server that had less",
            at.0, self.options.name
        );
        hold_on(on, &Hold::begun(why)).await?;
        Ok(true)
    }

    /// What was seen is seen no more, now that it is told.
    pub(super) fn forget(&self, at: Sequence) {
        self.seen.store(at.0, Ordering::Release);
    }

    /// Compares where the database stands with what this process has seen of it.
    pub(super) async fn compare(&self) -> Result<(), sqlx::Error> {
        let at: i64 = sqlx::query_scalar(SEQUENCE).fetch_one(&self.pool).await?;
        if small(at) >= self.seen.load(Ordering::Acquire) {
            self.saw(Sequence(small(at)));
            return Ok(());
        }
        // Once more under the lock: what was read may have been read before what was seen.
        let mut on = self.pool.begin().await?;
        let at: i64 = sqlx::query_scalar(crate::postgres::commit::batch::LOCK).fetch_one(&mut *on).await?;
        let at = Sequence(small(at));
        if self.look_back(&mut on, at).await? {
            on.commit().await?;
            self.forget(at);
            return Ok(());
        }
        on.rollback().await
    }
}

/// Whether two places are the same, as far as either is known.
fn is_same(one: &str, other: &str) -> bool {
    one.split('/').zip(other.split('/')).all(|(one, other)| one == other || one == "?" || other == "?")
}
