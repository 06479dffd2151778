//! One transaction: the lock, the rows, the decisions, what they change.

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

/// What became of a batch.
pub(crate) enum BatchOutcome {
    /// It is written, or there was nothing to write.
    Answered(Answers),
    /// An earlier try had written it; the answers are those that were decided then.
    AlreadyWritten,
    /// The database does not know this process, or says that it is over.
    Unregistered,
    /// A lease that was to be concluded has passed on meanwhile. Nothing was written.
    LeaseLost,
    /// The database stood before what this process has seen of it. It is held now, and nothing was written.
    RolledBack,
}

/// Asked with the lock in hand and not together with it: a statement that waited for the lock sees of other tables what
/// was there before it waited.
const BATCH: &str = "SELECT batch FROM engines WHERE id = $1 AND ended_at IS NULL";

impl Shared {
    /// Decides on `commits` and writes what follows. `decided` keeps the answers for the case that the outcome gets lost.
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
        // From here on the outcome may be one that is not heard of.
        *decided = Some(answers.clone());
        transaction.commit().await?;
        self.observe(state.sequence);
        Ok(BatchOutcome::Answered(answers))
    }
}

/// Ends a transaction that has changed nothing, before anybody is answered: what it has locked would be passed over by leases.
async fn released(
    transaction: Transaction<'_, Postgres>,
    written: BatchOutcome,
) -> Result<BatchOutcome, sqlx::Error> {
    transaction.rollback().await.map(|()| written)
}
