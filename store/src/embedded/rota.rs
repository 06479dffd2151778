//! Whose turn it is: of the tenants that have something due, the one that was served longest ago.
//!
//! Used by [`Tasks`](super::tasks::Tasks), which tells it of every task that comes, moves or goes. With `k` tenants that have
//! something due, each of them gets one of any `k` turns, whatever the others have waiting. Every operation takes O(log n).

use crate::{TaskId, Timestamp};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// Names a tenant's share of the turns; that of the platform's own executions is empty.
pub(crate) type Share = Arc<str>;

#[derive(Default)]
struct Queue {
    /// By when each may be handed out.
    tasks: BTreeSet<(Timestamp, TaskId)>,
    /// The number of its last turn; 0 if it never had one.
    served: u64,
}

impl Queue {
    fn first(&self) -> Option<Timestamp> {
        self.tasks.first().map(|(available, _)| *available)
    }
}

/// The tasks of a store by whose they are.
#[derive(Default)]
pub(crate) struct Rota {
    /// A tenant that has nothing left keeps its place, or it could come back as one that was never served.
    queues: HashMap<Share, Queue>,
    /// Every tenant with tasks, by its first one.
    firsts: BTreeSet<(Timestamp, Share)>,
    /// Those whose first is due by `now`, the one served longest ago first; among equals the one that has waited longest.
    ready: BTreeSet<(u64, Timestamp, Share)>,
    now: Timestamp,
    turns: u64,
}

impl Rota {
    /// The share of this name, one for all that bear it.
    pub(crate) fn share(&mut self, name: &str) -> Share {
        if let Some((share, _)) = self.queues.get_key_value(name) {
            return share.clone();
        }
        let share: Share = name.into();
        self.queues.insert(share.clone(), Queue::default());
        share
    }

    pub(crate) fn insert(&mut self, share: &Share, available: Timestamp, id: TaskId) {
        self.change(share, |queue| queue.tasks.insert((available, id)));
    }

    pub(crate) fn remove(&mut self, share: &Share, available: Timestamp, id: TaskId) {
        self.change(share, |queue| queue.tasks.remove(&(available, id)));
    }

    /// Notes that the share has had its turn.
    pub(crate) fn served(&mut self, share: &Share) {
        self.turns = self.turns.saturating_add(1);
        let turn = self.turns;
        self.change(share, |queue| queue.served = turn);
    }

    /// Whose turn it is at `now`, and with which task; passes over tasks that `barred` names.
    pub(crate) fn next(&mut self, now: Timestamp, barred: impl Fn(TaskId) -> bool) -> Option<TaskId> {
        self.turn_to(now);
        self.ready.iter().find_map(|(_, _, share)| {
            let due = self.queues.get(share)?.tasks.iter().take_while(|(available, _)| *available <= now);
            due.map(|(_, id)| *id).find(|id| !barred(*id))
        })
    }

    /// When the next task can be handed out.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.firsts.first().map(|(first, _)| *first)
    }

    fn change<T>(&mut self, share: &Share, change: impl FnOnce(&mut Queue) -> T) {
        let Some(queue) = self.queues.get_mut(share) else { return };
        let (first, served) = (queue.first(), queue.served);
        change(queue);
        if (first, served) == (queue.first(), queue.served) {
            return;
        }
        if let Some(first) = first {
            self.firsts.remove(&(first, share.clone()));
            self.ready.remove(&(served, first, share.clone()));
        }
        if let Some(first) = queue.first() {
            self.firsts.insert((first, share.clone()));
            if first <= self.now {
                self.ready.insert((queue.served, first, share.clone()));
            }
        }
    }

    /// Moves `now`, forward or back; only tenants whose first task lies between are looked at.
    fn turn_to(&mut self, now: Timestamp) {
        let nobody: Share = "".into();
        let from = |at: Timestamp| (Timestamp(at.0.saturating_add(1)), nobody.clone());
        let (earlier, later) = (self.now.min(now), self.now.max(now));
        for (first, share) in self.firsts.range(from(earlier)..from(later)) {
            let served = self.queues.get(share).map_or(0, |queue| queue.served);
            let entry = (served, *first, share.clone());
            if now > self.now {
                self.ready.insert(entry);
            } else {
                self.ready.remove(&entry);
            }
        }
        self.now = now;
    }
}
