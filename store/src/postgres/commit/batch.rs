//! One transaction: the lock, the rows, the decisions, what they change.

use crate::postgres::{
    Shared,
    commit::{
        load,
        partitions::divide,
        save::{self, Before, Touched},
    },
    row::small,
};
use crate::{Commit, Error, Receipt, Sequence};
use sqlx::{Connection as _, Postgres, Transaction};

/// The answer to each commit of a batch, in order.
pub(in crate::postgres) type Answers = Vec<Result<Receipt, Error>>;

/// What became of a batch.
pub(in crate::postgres) enum Written {
    /// It is written, or there was nothing to write.
    Now(Answers),
    /// An earlier try had written it; the answers are those that were decided then.
    Before,
    /// The database does not know this process, or says that it is over.
    Unregistered,
    /// A lease that was to be concluded has passed on meanwhile. Nothing was written.
    Raced,
    /// The database stood before what this process has seen of it. It is held now, and nothing was written.
    Back,
}

/// Whoever has this row commits; all others wait.
pub(in crate::postgres) const LOCK: &str = "SELECT sequence FROM head FOR UPDATE";
/// Asked with the lock in hand and not together with it: a statement that waited for the lock sees of other tables what
/// was there before it waited.
const BATCH: &str = "SELECT batch FROM engines WHERE id = $1 AND ended_at IS NULL";
pub(in crate::postgres) const NOTIFY: &str = "SELECT pg_notify($1, '')";

impl Shared {
    /// Decides on `commits` and writes what follows. `decided` keeps the answers for the case that the outcome gets lost.
    pub(in crate::postgres) async fn write_batch(
        &self,
        number: i64,
        commits: &[&Commit],
        decided: &mut Option<Answers>,
    ) -> Result<Written, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let mut transaction = connection.begin().await?;
        let from: i64 = sqlx::query_scalar(LOCK).fetch_one(&mut *transaction).await?;
        let from = Sequence(small(from));
        if self.look_back(&mut transaction, from).await? {
            transaction.commit().await?;
            self.forget(from);
            return Ok(Written::Back);
        }
        match sqlx::query_scalar::<_, i64>(BATCH).bind(self.id).fetch_optional(&mut *transaction).await? {
            None => return released(transaction, Written::Unregistered).await,
            Some(last) if last == number => return released(transaction, Written::Before).await,
            Some(_) => {}
        }
        let mut state = load::load(&mut transaction, from, commits.iter().copied()).await?;
        let before = Before::of(&state);
        let mut touched = Touched::default();
        let mut answers = Answers::with_capacity(commits.len());
        for commit in commits {
            answers.push(state.check(commit).map(|()| {
                touched.note(commit, &state);
                state.apply((*commit).clone())
            }));
        }
        if state.sequence == from {
            return released(transaction, Written::Now(answers)).await;
        }
        if !save::save(&mut transaction, &state, &touched, from, &before).await? {
            return released(transaction, Written::Raced).await;
        }
        divide(&mut transaction, from, state.sequence).await?;
        let batch = (number, self.id);
        save::save_head(&mut transaction, state.sequence, batch, &self.channel(), touched.scheduled).await?;
        // From here on the outcome may be one that is not heard of.
        *decided = Some(answers.clone());
        transaction.commit().await?;
        self.saw(state.sequence);
        Ok(Written::Now(answers))
    }

    /// Where those who wait for work are told of it.
    pub(in crate::postgres) fn channel(&self) -> String {
        format!("tenure_{}", self.options.schema)
    }
}

/// Ends a transaction that has changed nothing, before anybody is answered: what it has locked would be passed over by leases.
async fn released(transaction: Transaction<'_, Postgres>, written: Written) -> Result<Written, sqlx::Error> {
    transaction.rollback().await.map(|()| written)
}
