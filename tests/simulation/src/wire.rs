//! The connection of one node to the store: sometimes slow, sometimes cut, and the place where a node dies.

use crate::{
    clock::NodeClock,
    dice::Dice,
    laws::Laws,
    trouble::{Trouble, Troubles},
};
use async_trait::async_trait;
use engine::SECOND;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Memory, Page, Query, Receipt, Record, Sequence, Store, Task, TaskId, Timestamp,
};
use tokio::{sync::Notify, time::Instant};

/// How long a node waits for the store before it assumes an outage.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The parts that all nodes share.
pub struct Shared {
    /// The one store.
    pub truth: Arc<Memory>,
    /// The laws.
    pub laws: Arc<Laws>,
    /// The faults.
    pub troubles: Arc<Troubles>,
    /// Random numbers for durations.
    pub dice: Dice,
    /// True once there are no more faults.
    pub calm: AtomicBool,
    /// The end of the slow phase, in milliseconds since the start.
    pub slow_until: AtomicU64,
    /// The start of the simulation.
    pub began: Instant,
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    /// Returns true if `kind` happens here.
    pub fn strikes(&self, kind: Trouble, of: u64) -> bool {
        !self.calm.load(Ordering::SeqCst) && self.troubles.strikes(kind, of)
    }
}

/// A node's connection to the store.
pub struct Wire {
    /// The node's name.
    pub node: String,
    shared: Arc<Shared>,
    clock: Arc<NodeClock>,
    dead: AtomicBool,
    /// Notified when the node dies.
    pub died: Notify,
    cut_until: AtomicU64,
}

impl Wire {
    /// A connection for `node`.
    #[must_use]
    pub fn new(node: &str, shared: Arc<Shared>, clock: Arc<NodeClock>) -> Self {
        let (dead, died, cut_until) = (AtomicBool::new(false), Notify::new(), AtomicU64::new(0));
        Self { node: node.into(), shared, clock, dead, died, cut_until }
    }

    /// The node dies here: none of its work continues.
    async fn die<T>(&self, how: &str) -> T {
        self.shared.laws.note(format_args!("{}: dies {how}", self.node));
        self.dead.store(true, Ordering::SeqCst);
        self.died.notify_one();
        std::future::pending().await
    }

    /// Simulates the way to the store.
    async fn send(&self) -> Result<(), Error> {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let shared = &self.shared;
        if shared.strikes(Trouble::Cut, 2) {
            let span = shared.dice.span(1_000, 120_000);
            shared.laws.note(format_args!("{}: is cut off for {span:?}", self.node));
            self.cut_until.store(shared.now() + u64::try_from(span.as_millis()).unwrap(), Ordering::SeqCst);
        }
        if shared.strikes(Trouble::Slow, 1) {
            shared.laws.note(format_args!("the store is slow"));
            shared
                .slow_until
                .store(shared.now() + shared.dice.span(1_000, 60_000).as_secs() * 1_000, Ordering::SeqCst);
        }
        if shared.strikes(Trouble::ClockJump, 1) {
            let off = i64::try_from(shared.dice.below(120_000)).unwrap() - 60_000;
            shared.laws.note(format_args!("{}: its clock is off by {off} ms", self.node));
            self.clock.set_off(off);
        }
        self.wait().await
    }

    async fn wait(&self) -> Result<(), Error> {
        let shared = &self.shared;
        if shared.now() < self.cut_until.load(Ordering::SeqCst) && !shared.calm.load(Ordering::SeqCst) {
            tokio::time::sleep(TIMEOUT).await;
            return Err(Error::Unavailable { why: "the store does not answer".into() });
        }
        let most = if shared.now() < shared.slow_until.load(Ordering::SeqCst) { 2_000 } else { 4 };
        tokio::time::sleep(shared.dice.span(0, most)).await;
        Ok(())
    }

    async fn pass<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.send().await?;
        let answer = asked.await;
        self.wait().await?;
        answer
    }
}

#[async_trait]
impl Store for Wire {
    async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        self.send().await?;
        let shared = &self.shared;
        if shared.strikes(Trouble::CrashBefore, 8) {
            return self.die("before a commit").await;
        }
        let id = commit.record.as_ref().map(|write| write.record.id);
        let before = match id {
            Some(id) => shared.truth.load(id).await?,
            None => None,
        };
        let receipt = shared.truth.commit(commit.clone()).await?;
        shared.laws.committed(&self.node, before.as_ref(), &commit, &receipt);
        if shared.strikes(Trouble::CrashAfter, 8) {
            return self.die("after a commit").await;
        }
        if shared.strikes(Trouble::AnswerLost, 12) {
            shared.laws.note(format_args!("{}: gets no answer for its commit", self.node));
            tokio::time::sleep(TIMEOUT).await;
            return Err(Error::Unavailable { why: "the answer of the store was lost".into() });
        }
        self.wait().await?;
        Ok(receipt)
    }
    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        self.pass(self.shared.truth.load(id)).await
    }
    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        self.pass(self.shared.truth.guard_holder(guard)).await
    }
    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        self.pass(self.shared.truth.journal(id, after, limit)).await
    }
    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error> {
        self.pass(self.shared.truth.history(after, limit)).await
    }
    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        self.pass(self.shared.truth.list(filter, after, limit)).await
    }
    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error> {
        self.pass(self.shared.truth.search(query, after, limit)).await
    }
    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        self.pass(self.shared.truth.unreadable()).await
    }
    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        self.pass(self.shared.truth.document(key)).await
    }
    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        self.pass(self.shared.truth.documents(collection, prefix, after, limit)).await
    }
    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        self.send().await?;
        let leases = self.shared.truth.lease(holder, now, ttl, limit).await?;
        leases.iter().for_each(|lease| self.shared.laws.leased(lease));
        self.wait().await?;
        Ok(leases)
    }
    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        self.pass(self.shared.truth.renew(task, epoch, until)).await
    }
    async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), Error> {
        self.pass(self.shared.truth.release(task, epoch, due, deliveries)).await
    }
    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error> {
        self.pass(self.shared.truth.hasten(task, due)).await
    }
    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        self.pass(self.shared.truth.tasks(id)).await
    }
    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.pass(self.shared.truth.next_due()).await
    }
    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        self.pass(self.shared.truth.hold(hold)).await
    }
    async fn current_hold(&self) -> Result<Option<Hold>, Error> {
        self.pass(self.shared.truth.current_hold()).await
    }
    async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.pass(self.shared.truth.unhold(since)).await
    }
    async fn health(&self) -> Health {
        self.shared.truth.health().await
    }
}

/// How long a client waits for an answer before it retries.
pub const CLIENT_WAITS: Duration = Duration::from_secs(30 * SECOND.as_secs());
