//! One reader of the history for all streams: it follows commits of all servers, and sends each change once.
//!
//! Invariant: commits never wait for streams. The reader runs behind the commits; it is notified of commits of this server, and polls for those of others. A
//! subscriber that is too slow misses changes, gets an error, and starts again.

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

/// The number of changes buffered for slow subscribers.
const BACKLOG: usize = 1_024;
/// The timeout for the reader's start, after which a subscription fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// The feed of changes and its subscribers.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    /// Notified by every commit of this server, and by new subscriptions.
    pub(crate) bell: Arc<Notify>,
    /// Notified by requests that may change tokens.
    pub(crate) asked: Notify,
    pub(crate) places: Arc<StreamQuota>,
    /// The states that may write approvals.
    pub(crate) asking: ApprovalStates,
    tell: broadcast::Sender<Arc<Change>>,
    wanted: Mutex<Subscriptions>,
    /// The position up to which changes were sent; `None` while the reader is idle.
    reached: watch::Sender<Option<Sequence>>,
    /// Set when all subscriptions end.
    over: watch::Sender<bool>,
}

/// The topic of a subscription; only subscribed topics are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// One execution.
    One(ExecutionId),
    /// All executions.
    All,
    /// All approvals.
    Approvals,
}

/// The number of subscriptions per topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    one: BTreeMap<ExecutionId, usize>,
    all: usize,
    approvals: usize,
}

impl Subscriptions {
    /// Returns true if `execution` has subscriptions.
    pub(crate) fn has(&self, execution: ExecutionId) -> bool {
        self.all > 0 || self.one.contains_key(&execution)
    }

    /// Returns true if approvals have subscriptions.
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

/// A subscription, until dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    feed: Arc<ChangeFeed>,
    topic: Topic,
    /// The changes.
    pub(crate) told: broadcast::Receiver<Arc<Change>>,
    over: watch::Receiver<bool>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.wanted().remove(self.topic);
    }
}

impl Subscription {
    /// Returns true if all subscriptions end.
    pub(crate) fn over(&self) -> bool {
        *self.over.borrow()
    }

    /// Returns the next change; `None` at the end.
    pub(crate) async fn hear(&mut self) -> Option<Result<Arc<Change>, RecvError>> {
        tokio::select! {
            biased;
            _ = self.over.wait_for(|over| *over) => None,
            told = self.told.recv() => Some(told),
        }
    }

    /// Skips all changes sent so far.
    pub(crate) fn renewed(&mut self) {
        self.told = self.told.resubscribe();
    }
}

impl ChangeFeed {
    /// Creates a feed with notifier `bell` for these workflows, with maximum numbers of streams in total and per token.
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

    /// Subscribes once the reader runs: every later commit is sent, and earlier ones can be read. Returns `None` if the server stops, or the reader does not
    /// start in time.
    pub(crate) async fn listen(self: &Arc<Self>, topic: Topic) -> Option<Subscription> {
        let listener = {
            // The lock prevents the reader from becoming idle in between.
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

    /// Returns the position up to which changes were sent.
    pub(crate) fn reached(&self, now: Timestamp) -> Position {
        Position::whole(self.reached.borrow().unwrap_or_default(), now)
    }

    /// Returns the present subscriptions.
    pub(crate) fn is_wanted(&self) -> Subscriptions {
        self.wanted().clone()
    }

    /// Returns true if there is a subscription.
    pub(crate) fn is_heard(&self) -> bool {
        self.tell.receiver_count() > 0
    }

    /// Records that the reader reads from this position.
    pub(crate) fn reads(&self, from: Sequence) {
        self.reached.send_replace(Some(from));
    }

    /// Makes the reader idle if there are no subscriptions.
    pub(crate) fn rests(&self) -> bool {
        let _held = self.wanted();
        if self.is_heard() {
            return false;
        }
        self.reached.send_replace(None);
        true
    }

    /// Sends changes in this order, up to `reached`.
    pub(crate) fn tell(&self, changes: Vec<Change>, reached: Sequence) {
        for change in changes {
            // Without subscribers, sending fails and nothing is missed.
            _ = self.tell.send(Arc::new(change));
        }
        self.reached.send_replace(Some(reached));
    }

    /// Ends all subscriptions.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }
}
