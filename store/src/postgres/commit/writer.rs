//! The one task of a process that commits: it gathers waiting commits, writes them in one transaction, and answers.
//!
//! Invariant: no answer is sent before the outcome of the transaction is known. If the outcome is lost, the next
//! transaction finds, under the lock, whether the batch of that number was written, and answers accordingly.

use super::batch::{Answers, BatchOutcome};
use crate::{
    Commit, Error, Receipt,
    postgres::{
        error::{Retries, is_transient, rejected, unavailable},
        shared::Shared,
    },
};
use std::sync::{Arc, atomic::Ordering};
use tokio::sync::{mpsc, oneshot};

/// The limits of a batch, in bytes and in commits.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_COMMITS: usize = 512;

/// A commit and its waiting caller.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) commit: Commit,
    pub(crate) reply: oneshot::Sender<Result<Receipt, Error>>,
}

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: mpsc::Receiver<Request>,
    /// The number of the last batch.
    pub(crate) batch: i64,
}

impl Writer {
    /// Commits until all senders are gone.
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.inbox.recv().await {
            let batch = self.gather(first);
            self.write(batch).await;
        }
    }

    fn gather(&mut self, first: Request) -> Vec<Request> {
        let mut bytes = body_bytes(&first.commit);
        let mut batch = vec![first];
        while batch.len() < BATCH_COMMITS && bytes < BATCH_BYTES {
            let Ok(next) = self.inbox.try_recv() else { break };
            bytes = bytes.saturating_add(body_bytes(&next.commit));
            batch.push(next);
        }
        batch
    }

    /// Writes a batch. If the database refuses its content, each of its commits is tried separately, so that one
    /// blocks no other.
    async fn write(&mut self, batch: Vec<Request>) {
        let commits: Vec<&Commit> = batch.iter().map(|request| &request.commit).collect();
        match self.write_with_retries(&commits).await {
            Ok(answers) => answer(batch, answers),
            Err(WriteError::Rejected(error)) if batch.len() == 1 => {
                answer(batch, vec![Err(rejected(&error))]);
            }
            Err(WriteError::Rejected(_)) => {
                for request in batch {
                    Box::pin(self.write(vec![request])).await;
                }
            }
            Err(WriteError::Unavailable(error)) => {
                let told = vec![Err(error); batch.len()];
                answer(batch, told);
            }
        }
    }

    /// Returns the result of each commit. Retries while failures are transient; the next try finds the outcome of an
    /// interrupted one.
    async fn write_with_retries(&mut self, commits: &[&Commit]) -> Result<Answers, WriteError> {
        self.batch = self.batch.saturating_add(1);
        let mut decided: Option<Answers> = None;
        let mut retries = Retries::within(self.shared.options.retry_timeout);
        loop {
            match self.shared.write_batch(self.batch, commits, &mut decided).await {
                Ok(BatchOutcome::Answered(answers)) => {
                    let done = answers.iter().filter(|answer| answer.is_ok()).count();
                    self.shared.counters.commits.fetch_add(done as u64, Ordering::Relaxed);
                    self.shared.counters.batches.fetch_add(1, Ordering::Relaxed);
                    return Ok(answers);
                }
                Ok(BatchOutcome::AlreadyWritten) => return decided.take().ok_or_else(unknown_batch),
                // The data that the commits depend on may be gone; their conditions find out.
                Ok(BatchOutcome::RolledBack | BatchOutcome::LeaseLost) => {
                    if !retries.wait().await {
                        let why = "every attempt of a commit conflicted with other servers".into();
                        return Err(WriteError::Unavailable(Error::Unavailable { why }));
                    }
                }
                Ok(BatchOutcome::Unregistered) => {
                    let why = "this process may no longer write, because another process has marked it as ended; restart it";
                    return Err(WriteError::Unavailable(Error::Unavailable { why: why.into() }));
                }
                Err(error) if is_transient(&error) => {
                    self.shared.counters.retries.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, "a batch of commits could not be written; trying again");
                    if !retries.wait().await {
                        return Err(WriteError::Unavailable(unavailable(&error)));
                    }
                }
                Err(error) if error.as_database_error().is_some() => return Err(WriteError::Rejected(error)),
                Err(error) => return Err(WriteError::Unavailable(unavailable(&error))),
            }
        }
    }
}

enum WriteError {
    /// The database refuses the content.
    Rejected(sqlx::Error),
    /// The database is unavailable; the outcome may be unknown.
    Unavailable(Error),
}

fn unknown_batch() -> WriteError {
    WriteError::Unavailable(Error::Unavailable { why: "an unknown batch of this process was written".into() })
}

fn answer(batch: Vec<Request>, answers: Answers) {
    for (request, answer) in batch.into_iter().zip(answers) {
        // The caller may have gone.
        let _ = request.reply.send(answer);
    }
}

fn body_bytes(commit: &Commit) -> usize {
    let record = commit.record.as_ref().map_or(0, |write| write.record.body.len());
    let documents: usize = commit.documents.iter().filter_map(|put| put.body.as_ref()).map(Vec::len).sum();
    let journal: usize = commit.journal.iter().map(|entry| entry.detail.len()).sum();
    let tasks: usize = commit.schedule.iter().map(|task| task.body.len()).sum();
    [record, documents, journal, tasks].into_iter().fold(0, usize::saturating_add)
}
