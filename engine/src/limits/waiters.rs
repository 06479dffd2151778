//! The tasks that wait for a key, in this process. Tenants take turns; within a tenant, the oldest task goes first.
//!
//! Pure. A waiting task is deferred in the store and becomes due again by itself. So a list that is lost with its
//! process forms again in the same order.

use crate::Deferral;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};
use store::{TaskId, Timestamp};

/// A first task that is overdue by this much belongs to another process now, and is skipped.
const LOST_AFTER: Duration = Duration::from_secs(120);

/// A waiting task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) tenant: String,
    /// Since when it waits. Kept when it moves to the list of another key.
    pub(crate) since: Timestamp,
    /// When it becomes due by itself.
    pub(crate) due: Timestamp,
    pub(crate) why: Deferral,
}

#[derive(Default)]
struct TenantQueue {
    waiting: BTreeMap<(Timestamp, TaskId), Waiter>,
    /// The number of its last turn; 0 before the first.
    last_turn: u64,
}

impl TenantQueue {
    /// Returns the order of its turn: tenants by their last turn, then by the age of their oldest task.
    fn rank(&self) -> Option<(u64, Timestamp)> {
        self.waiting.keys().next().map(|(since, _)| (self.last_turn, *since))
    }
}

#[derive(Default)]
struct KeyQueue {
    tenants: BTreeMap<String, TenantQueue>,
    turns: u64,
}

/// The waiting tasks of all keys. A task waits for one key at a time.
#[derive(Default)]
pub(crate) struct WaitQueues {
    keys: BTreeMap<String, KeyQueue>,
    location: BTreeMap<TaskId, (String, String, Timestamp)>,
}

impl WaitQueues {
    pub(crate) fn join(&mut self, key: &str, task: TaskId, waiter: Waiter) {
        self.remove(task);
        self.location.insert(task, (key.into(), waiter.tenant.clone(), waiter.since));
        let queue =
            self.keys.entry(key.into()).or_default().tenants.entry(waiter.tenant.clone()).or_default();
        queue.waiting.insert((waiter.since, task), waiter);
    }

    /// Removes `task` from its list.
    pub(crate) fn remove(&mut self, task: TaskId) {
        let Some((key, tenant, since)) = self.location.remove(&task) else { return };
        let Entry::Occupied(mut line) = self.keys.entry(key) else { return };
        if let Some(queue) = line.get_mut().tenants.get_mut(&tenant) {
            queue.waiting.remove(&(since, task));
        }
        // A tenant without waiting tasks keeps its turn while others wait.
        if line.get().tenants.values().all(|queue| queue.waiting.is_empty()) {
            line.remove();
        }
    }

    /// Records that a task of `tenant` started at `key`.
    pub(crate) fn mark_served(&mut self, key: &str, tenant: &str) {
        if let Some(line) = self.keys.get_mut(key) {
            line.turns = line.turns.saturating_add(1);
            line.tenants.entry(tenant.into()).or_default().last_turn = line.turns;
        }
    }

    /// Returns since when `task` has waited.
    pub(crate) fn waiting_since(&self, task: TaskId) -> Option<Timestamp> {
        self.location.get(&task).map(|(_, _, since)| *since)
    }

    /// Returns how many tasks are ahead of a task of `tenant` that has waited since `since`, whether or not it is in
    /// the list.
    pub(crate) fn count_ahead(
        &mut self,
        key: &str,
        tenant: &str,
        task: TaskId,
        since: Timestamp,
        now: Timestamp,
    ) -> usize {
        self.forget_lost(key, now);
        let Some(line) = self.keys.get(key) else { return 0 };
        let own = line.tenants.get(tenant);
        let round = own.map_or(0, |queue| queue.waiting.range(..(since, task)).count());
        let first = own.and_then(TenantQueue::rank).map_or(since, |(_, first)| first.min(since));
        let rank = (own.map_or(0, |queue| queue.last_turn), first, tenant);
        let others = line.tenants.iter().filter(|(other, _)| *other != tenant).map(|(other, queue)| {
            let earlier = queue.rank().is_some_and(|(served, first)| (served, first, other.as_str()) < rank);
            queue.waiting.len().min(round.saturating_add(usize::from(earlier)))
        });
        others.fold(round, usize::saturating_add)
    }

    /// Returns the first `n` tasks of `key`, in the order of their turns.
    pub(crate) fn next(&mut self, key: &str, n: usize, now: Timestamp) -> Vec<TaskId> {
        self.forget_lost(key, now);
        let Some(line) = self.keys.get(key) else { return Vec::new() };
        let mut queues: Vec<_> = line
            .tenants
            .iter()
            .filter_map(|(tenant, queue)| Some((queue.rank()?, tenant, queue.waiting.keys())))
            .collect();
        queues.sort_by_key(|(rank, tenant, _)| (*rank, *tenant));
        let mut order = Vec::new();
        while order.len() < n {
            let before = order.len();
            for (_, _, waiting) in &mut queues {
                order.extend(waiting.next().map(|(_, task)| *task));
            }
            if order.len() == before {
                break;
            }
        }
        order.truncate(n);
        order
    }

    /// Records that `task` becomes due at `due`.
    pub(crate) fn hastened(&mut self, task: TaskId, due: Timestamp) {
        let Some((key, tenant, since)) = self.location.get(&task) else { return };
        let queue = self.keys.get_mut(key).and_then(|line| line.tenants.get_mut(tenant));
        if let Some(waiter) = queue.and_then(|queue| queue.waiting.get_mut(&(*since, task))) {
            waiter.due = due;
        }
    }

    /// Returns all waiting tasks, by key.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, TaskId, &Waiter)> {
        self.keys.iter().flat_map(|(key, line)| {
            let queues = line.tenants.values().flat_map(|queue| &queue.waiting);
            queues.map(|((_, task), waiter)| (key.as_str(), *task, waiter))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.location.len()
    }

    /// Only the first tasks are checked: a task behind a present one blocks no other.
    fn forget_lost(&mut self, key: &str, now: Timestamp) {
        loop {
            let heads = self.keys.get(key).into_iter().flat_map(|line| line.tenants.values());
            let lost = heads.filter_map(|queue| queue.waiting.first_key_value());
            let lost: Vec<TaskId> = lost
                .filter(|(_, waiter)| waiter.due.after(LOST_AFTER) < now)
                .map(|((_, task), _)| *task)
                .collect();
            if lost.is_empty() {
                return;
            }
            lost.into_iter().for_each(|task| self.remove(task));
        }
    }
}
