//! One transaction: the lock, the rows, the decisions, what they change.

use super::{
    Shared, load,
    row::{big, small},
    save::{self, Touched},
};
use crate::{Commit, Error, Receipt, Sequence};
use sqlx::{Connection as _, PgConnection, Row as _};

/// The answer to each commit of a batch, in order.
pub(super) type Answers = Vec<Result<Receipt, Error>>;

/// What became of a batch.
pub(super) enum Written {
    /// It is written, or there was nothing to write.
    Now(Answers),
    /// An earlier try had written it; the answers are those that were decided then.
    Before,
    /// The database does not know this process, or says that it is over.
    Unregistered,
}

/// Whoever has this row commits; all others wait.
const LOCK: &str = "SELECT h.sequence, e.batch FROM head h, engines e WHERE e.id = $1 AND e.ended_at IS NULL FOR UPDATE OF h";
const NOTIFY: &str = "SELECT pg_notify($1, '')";
/// History is divided by its order; the next part is made well before it is needed.
const PART: i64 = 10_000_000;

impl Shared {
    /// Decides on `commits` and writes what follows. `decided` keeps the answers for the case that the outcome gets lost.
    pub(super) async fn write_batch(
        &self,
        number: i64,
        commits: &[&Commit],
        decided: &mut Option<Answers>,
    ) -> Result<Written, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let mut transaction = connection.begin().await?;
        let Some(head) = sqlx::query(LOCK).bind(self.id).fetch_optional(&mut *transaction).await? else {
            return Ok(Written::Unregistered);
        };
        if head.try_get::<i64, _>("batch")? == number {
            return Ok(Written::Before);
        }
        let from = Sequence(small(head.try_get("sequence")?));
        let mut state = load::load(&mut transaction, from, commits.iter().copied()).await?;
        let kept = state.order.clone();
        let mut touched = Touched::default();
        let mut answers = Answers::with_capacity(commits.len());
        for commit in commits {
            answers.push(state.check(commit).map(|()| {
                touched.note(commit, &state);
                state.apply((*commit).clone())
            }));
        }
        if state.sequence == from {
            return Ok(Written::Now(answers));
        }
        save::save(&mut transaction, &state, &touched, from, &kept).await?;
        divide(&mut transaction, from, state.sequence).await?;
        if touched.scheduled {
            sqlx::query(NOTIFY).bind(self.channel()).execute(&mut *transaction).await?;
        }
        save::save_head(&mut transaction, state.sequence, number, self.id).await?;
        // From here on the outcome may be one that is not heard of.
        *decided = Some(answers.clone());
        transaction.commit().await?;
        Ok(Written::Now(answers))
    }

    /// Where those who wait for work are told of it.
    pub(super) fn channel(&self) -> String {
        format!("tenure_{}", self.options.schema)
    }
}

/// Makes the next part of the history when half of the last is filled, so that there is always one to write to.
pub(super) async fn divide(on: &mut PgConnection, from: Sequence, to: Sequence) -> Result<(), sqlx::Error> {
    let part = |sequence: Sequence| big(sequence.0).saturating_add(PART / 2) / PART;
    for part in part(from).saturating_add(1)..=part(to) {
        let (first, last) = (part.saturating_mul(PART), part.saturating_add(1).saturating_mul(PART));
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS journal_{part} PARTITION OF journal FOR VALUES FROM ({first}) TO ({last})"
        );
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *on).await?;
    }
    Ok(())
}
