//! One transaction: the lock, the rows, the decisions, and their changes.

use super::{
    LOCK, load,
    save::{self, Before, Touched},
};
use crate::{
    Commit, Error, Receipt, Sequence,
    postgres::{row::to_u64, shared::Shared},
};
use sqlx::{Connection as _, Postgres, Transaction};

/// The answer to each commit of a batch, in order.
pub(crate) type Answers = Vec<Result<Receipt, Error>>;

/// The result of a batch.
pub(crate) enum BatchOutcome {
    /// It is written, or there was nothing to write.
    Answered(Answers),
    /// An earlier try had written it; the answers are those of that try.
    AlreadyWritten,
    /// The database does not know this process, or has ended it.
    Unregistered,
    /// The lease of a settled task was lost meanwhile. Nothing was written.
    LeaseLost,
    /// The database is behind a commit that this process has seen. It is held now, and nothing was written.
    RolledBack,
}

/// A separate statement after the lock: a statement that waited for the lock would see other tables as they were
/// before it waited.
const BATCH: &str = "SELECT batch FROM engines WHERE id = $1 AND ended_at IS NULL";

impl Shared {
    /// Decides on `commits` and writes the changes. `decided` keeps the answers in case the outcome is lost.
    pub(crate) async fn write_batch(
        &self,
        number: i64,
        commits: &[&Commit],
        decided: &mut Option<Answers>,
    ) -> Result<BatchOutcome, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let mut transaction = connection.begin().await?;
        let from: i64 = sqlx::query_scalar(LOCK).fetch_one(&mut *transaction).await?;
        let from = Sequence(to_u64(from));
        if self.check_rollback(&mut transaction, from).await? {
            transaction.commit().await?;
            self.reset_watermark(from);
            return Ok(BatchOutcome::RolledBack);
        }
        match sqlx::query_scalar::<_, i64>(BATCH).bind(self.id).fetch_optional(&mut *transaction).await? {
            None => return released(transaction, BatchOutcome::Unregistered).await,
            Some(last) if last == number => return released(transaction, BatchOutcome::AlreadyWritten).await,
            Some(_) => {}
        }
        let mut state = load::load(&mut transaction, from, commits.iter().copied()).await?;
        let before = Before::from_state(&state);
        let mut touched = Touched::default();
        let mut answers = Answers::with_capacity(commits.len());
        for commit in commits {
            answers.push(state.check(commit).map(|()| {
                touched.add_commit(commit, &state);
                state.apply((*commit).clone())
            }));
        }
        if state.sequence == from {
            return released(transaction, BatchOutcome::Answered(answers)).await;
        }
        self.expect_partitions(&mut transaction, from, state.sequence).await?;
        if !save::save(&mut transaction, &state, &touched, from, &before).await? {
            return released(transaction, BatchOutcome::LeaseLost).await;
        }
        let batch = (number, self.id);
        save::save_head(&mut transaction, state.sequence, batch, &self.channel(), touched.scheduled).await?;
        // From here on the outcome may be lost.
        *decided = Some(answers.clone());
        transaction.commit().await?;
        self.observe(state.sequence);
        Ok(BatchOutcome::Answered(answers))
    }
}

/// Ends a transaction without changes before the answers are sent: leases would skip the rows that it has locked.
async fn released(
    transaction: Transaction<'_, Postgres>,
    written: BatchOutcome,
) -> Result<BatchOutcome, sqlx::Error> {
    transaction.rollback().await.map(|()| written)
}
