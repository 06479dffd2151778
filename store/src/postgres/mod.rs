//! The store on PostgreSQL: many processes, one database, the same promises.
//!
//! Each process gathers commits and writes them in one transaction, under the lock of the one row that counts
//! commits. So the batches of all processes have one order, a commit is decided on rows that no other process is
//! changing, and the order of the history is the order of commits. The rules of decisions are those of the reference
//! store; its rows are loaded before and written after. ADR 0014 has the reasons.

mod commit;
mod error;
mod fair_queue;
mod lease;
mod maintenance;
mod migrations;
mod notifications;
mod open;
mod options;
mod processes;
mod reads;
mod row;
mod search;
mod shared;
mod transfer;
mod watermark;

pub use open::Schema;
pub use options::PostgresOptions;
pub use processes::EngineProcess;

use self::{commit::writer::Request, shared::Shared};
use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Query, Receipt, Record, Sequence, Store, Task, TaskId, Timestamp, model::limits,
};
use async_trait::async_trait;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// A [`Store`] in a PostgreSQL database, shared by any number of processes.
#[derive(Debug)]
pub struct Postgres {
    shared: Arc<Shared>,
    inbox: mpsc::Sender<Request>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

#[async_trait]
impl Store for Postgres {
    async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        limits::check(&commit)?;
        let (reply, answer) = oneshot::channel();
        let closed = || Error::Unavailable { why: "the store is closing".into() };
        self.inbox.send(Request { commit, reply }).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        self.shared.load(id).await
    }

    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        // No text there has one.
        if guard.contains('\0') { Ok(None) } else { self.shared.holder(guard).await }
    }

    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        self.shared.journal(id, after, limit).await
    }

    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error> {
        self.shared.history(after, limit).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        let Found { items, next, .. } = self.shared.search(&filter.into(), after, limit).await?;
        Ok(Page { items, next })
    }

    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error> {
        self.shared.search(query, after, limit).await
    }

    /// None: what a row holds is of its type.
    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        Ok(Vec::new())
    }

    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        limits::check_key(key)?;
        self.shared.document(key).await
    }

    async fn documents_of(&self, keys: &[Key]) -> Result<Vec<Option<Document>>, Error> {
        keys.iter().try_for_each(limits::check_key)?;
        match keys {
            [] => Ok(Vec::new()),
            [key] => Ok(vec![self.shared.document(key).await?]),
            keys => self.shared.documents_of(keys).await,
        }
    }

    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        limits::check_collection(collection)?;
        if prefix.contains('\0') {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let after = after.map(|after| after.split('\0').next().unwrap_or_default());
        self.shared.documents(collection, prefix, after, limit).await
    }

    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        self.shared.lease(holder, now, ttl, limit).await
    }

    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        self.shared.renew(task, epoch, until).await
    }

    async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), Error> {
        self.shared.release(task, epoch, due, deliveries).await
    }

    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error> {
        self.shared.hasten(task, due).await
    }

    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        self.shared.tasks(id).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.shared.next_due().await
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        self.shared.hold(&hold).await
    }

    async fn current_hold(&self) -> Result<Option<Hold>, Error> {
        self.shared.current_hold().await
    }

    async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.shared.unhold(since).await
    }

    async fn wait_for_changes(&self) {
        self.shared.notifications.notified().await;
    }

    async fn health(&self) -> Health {
        self.shared.health().await
    }
}
