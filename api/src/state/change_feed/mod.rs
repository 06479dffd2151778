//! One reader of the history for everybody who watches: it follows what this server and others commit, and tells each change
//! once, however many watch.
//!
//! Invariant: nobody who commits waits for anybody here. The reader comes behind, woken by commits of this server and looking by
//! itself for those of others; whoever listens too slowly misses changes, is told so, and begins anew.

pub(crate) mod change;
pub(crate) mod position;
pub(crate) mod quota;
pub(crate) mod reader;

use change::{ApprovalStates, Change};
use engine::Diagram;
use position::Position;
use quota::StreamQuota;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::{ExecutionId, Sequence, Timestamp};
use tokio::sync::{
    Notify,
    broadcast::{self, error::RecvError},
    watch,
};

/// Changes kept for those who are slow.
const BACKLOG: usize = 1_024;
/// How long the reader may take to find its place, before who wants to listen is told to come again.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is told, and to whom.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    /// Rung by every commit of this server, and when somebody begins to listen.
    pub(crate) bell: Arc<Notify>,
    /// Rung when somebody asked for something that may concern tokens.
    pub(crate) asked: Notify,
    pub(crate) places: Arc<StreamQuota>,
    /// Where people are asked.
    pub(crate) asking: ApprovalStates,
    tell: broadcast::Sender<Arc<Change>>,
    wanted: Mutex<Subscriptions>,
    /// How far the reader has told; `None` while it rests.
    reached: watch::Sender<Option<Sequence>>,
    /// That everything ends.
    over: watch::Sender<bool>,
}

/// What somebody listens to, so that nothing else is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// One execution.
    One(ExecutionId),
    /// All of them.
    All,
    /// Approvals, of whichever.
    Approvals,
}

/// How many listen to what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    one: BTreeMap<ExecutionId, usize>,
    all: usize,
    approvals: usize,
}

impl Subscriptions {
    /// Whether anybody wants to hear of `execution` whatever happens to it.
    pub(crate) fn has(&self, execution: ExecutionId) -> bool {
        self.all > 0 || self.one.contains_key(&execution)
    }

    /// Whether anybody wants to hear of approvals.
    pub(crate) fn has_approvals(&self) -> bool {
        self.approvals > 0
    }

    fn add(&mut self, topic: Topic) {
        let count = match topic {
            Topic::One(id) => self.one.entry(id).or_default(),
            Topic::All => &mut self.all,
            Topic::Approvals => &mut self.approvals,
        };
        *count = count.saturating_add(1);
    }

    fn remove(&mut self, topic: Topic) {
        match topic {
            Topic::One(id) => {
                let left = self.one.get(&id).map_or(0, |count| count.saturating_sub(1));
                if left == 0 {
                    self.one.remove(&id);
                } else {
                    self.one.insert(id, left);
                }
            }
            Topic::All => self.all = self.all.saturating_sub(1),
            Topic::Approvals => self.approvals = self.approvals.saturating_sub(1),
        }
    }
}

/// Somebody who listens, until dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    feed: Arc<ChangeFeed>,
    topic: Topic,
    /// What is told.
    pub(crate) told: broadcast::Receiver<Arc<Change>>,
    over: watch::Receiver<bool>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.wanted().remove(self.topic);
    }
}

impl Subscription {
    /// Whether everything ends.
    pub(crate) fn over(&self) -> bool {
        *self.over.borrow()
    }

    /// The next change; `None` when everything ends.
    pub(crate) async fn hear(&mut self) -> Option<Result<Arc<Change>, RecvError>> {
        tokio::select! {
            biased;
            _ = self.over.wait_for(|over| *over) => None,
            told = self.told.recv() => Some(told),
        }
    }

    /// Hears from here on alone: what was told and not heard was missed.
    pub(crate) fn renewed(&mut self) {
        self.told = self.told.resubscribe();
    }
}

impl ChangeFeed {
    /// One that is rung by `bell`, of these workflows, with room for so many who listen, in all and under one token.
    pub(crate) fn new(bell: Arc<Notify>, drawn: Vec<Diagram>, (most, most_each): (usize, usize)) -> Self {
        Self {
            bell,
            asked: Notify::new(),
            asking: ApprovalStates::of(drawn),
            places: Arc::new(StreamQuota::new(most, most_each)),
            tell: broadcast::Sender::new(BACKLOG),
            wanted: Mutex::default(),
            reached: watch::Sender::new(None),
            over: watch::Sender::new(false),
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Subscriptions> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen, once the reader reads: whatever is committed from here on is told, or can be read by now.
    /// `None` when everything ends, or the reader does not find its place.
    pub(crate) async fn listen(self: &Arc<Self>, topic: Topic) -> Option<Subscription> {
        let listener = {
            // Under the lock: the reader does not go to rest meanwhile.
            let mut wanted = self.wanted();
            wanted.add(topic);
            let told = self.tell.subscribe();
            Subscription { feed: self.clone(), topic, told, over: self.over.subscribe() }
        };
        self.bell.notify_one();
        let mut reached = self.reached.subscribe();
        let (mut over, feed) = (self.over.subscribe(), self.clone());
        let reads = async {
            tokio::select! {
                _ = over.wait_for(|over| *over) => false,
                reads = reached.wait_for(Option::is_some) => reads.is_ok(),
            }
        };
        let reads = tokio::time::timeout(PATIENCE, reads).await.unwrap_or(false);
        (reads && !*feed.over.borrow()).then_some(listener)
    }

    /// How far the reader has told.
    pub(crate) fn reached(&self, now: Timestamp) -> Position {
        Position::whole(self.reached.borrow().unwrap_or_default(), now)
    }

    /// What anybody listens to at this moment.
    pub(crate) fn is_wanted(&self) -> Subscriptions {
        self.wanted().clone()
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.tell.receiver_count() > 0
    }

    /// The reader reads, from here on.
    pub(crate) fn reads(&self, from: Sequence) {
        self.reached.send_replace(Some(from));
    }

    /// The reader rests, if nobody listens.
    pub(crate) fn rests(&self) -> bool {
        let _held = self.wanted();
        if self.is_heard() {
            return false;
        }
        self.reached.send_replace(None);
        true
    }

    /// Tells changes, in this order, up to `reached`.
    pub(crate) fn tell(&self, changes: Vec<Change>, reached: Sequence) {
        for change in changes {
            // Nobody listens any more: then nobody misses it.
            _ = self.tell.send(Arc::new(change));
        }
        self.reached.send_replace(Some(reached));
    }

    /// Ends everything.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }
}
