//! The last commit that this machine has seen, stored outside the database: a database that was set back cannot
//! detect it.
//!
//! The file has one line, `LINEAGE SEQUENCE`. It may be a little behind, and is never ahead. Without it nothing is
//! detected.

use super::{commit::LOCK, maintenance::insert_hold, row::to_u64, shared::Shared};
use crate::{Hold, Sequence};
use sqlx::PgConnection;
use std::{fs, io, path::Path, sync::atomic::Ordering};
use uuid::Uuid;

const SEQUENCE: &str = "SELECT sequence FROM head";

/// Returns the last commit of the history `lineage` that was seen here.
pub(super) fn read(file: &Path, lineage: Uuid) -> Sequence {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut words = text.split_whitespace();
    let of = words.next().and_then(|word| word.parse::<Uuid>().ok());
    let sequence = words.next().and_then(|word| word.parse().ok());
    match (of, sequence) {
        (Some(of), Some(sequence)) if of == lineage => Sequence(sequence),
        _ => Sequence(0),
    }
}

pub(super) fn write(file: &Path, lineage: Uuid, sequence: Sequence) -> io::Result<()> {
    let temporary = file.with_extension("partial");
    fs::write(&temporary, format!("{lineage} {}\n", sequence.0))?;
    fs::rename(temporary, file)
}

impl Shared {
    /// Loads the last commit that was seen here.
    pub(super) fn load_watermark(&self) {
        if let Some(file) = &self.options.watermark_file {
            self.observe(read(file, self.lineage));
        }
    }

    /// Stores the last seen commit.
    pub(super) fn save_watermark(&self) {
        let seen = Sequence(self.seen.load(Ordering::Acquire));
        if let Some(file) = &self.options.watermark_file
            && let Err(error) = write(file, self.lineage, seen)
        {
            tracing::warn!(%error, file = %file.display(), "the last seen commit cannot be stored; a database that is set back will not be detected");
        }
    }

    /// Records that the database was at `sequence`.
    pub(super) fn observe(&self, sequence: Sequence) {
        self.seen.fetch_max(sequence.0, Ordering::AcqRel);
    }

    /// Holds the database if it is behind the last seen commit. `on` has the lock of commits. Returns true if it was
    /// held.
    pub(super) async fn check_rollback(
        &self,
        on: &mut PgConnection,
        at: Sequence,
    ) -> Result<bool, sqlx::Error> {
        let seen = self.seen.load(Ordering::Acquire);
        if at.0 >= seen {
            return Ok(false);
        }
        let why = format!(
            "it is at commit {}, but {} has seen commit {seen}: it was restored, or failed over to a server with fewer commits",
            at.0, self.options.name
        );
        insert_hold(on, &Hold::starting_now(why)).await?;
        Ok(true)
    }

    /// Resets the last seen commit after the hold.
    pub(super) fn reset_watermark(&self, at: Sequence) {
        self.seen.store(at.0, Ordering::Release);
        self.parts.store(-1, Ordering::Release);
    }

    /// Compares the database with the last seen commit.
    pub(super) async fn check_watermark(&self) -> Result<(), sqlx::Error> {
        let at: i64 = sqlx::query_scalar(SEQUENCE).fetch_one(&self.pool).await?;
        if to_u64(at) >= self.seen.load(Ordering::Acquire) {
            self.observe(Sequence(to_u64(at)));
            return Ok(());
        }
        // Compared again under the lock: the database may have been read before the last seen commit.
        let mut on = self.pool.begin().await?;
        let at: i64 = sqlx::query_scalar(LOCK).fetch_one(&mut *on).await?;
        let at = Sequence(to_u64(at));
        if self.check_rollback(&mut on, at).await? {
            on.commit().await?;
            self.reset_watermark(at);
            return Ok(());
        }
        on.rollback().await
    }
}
