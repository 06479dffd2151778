//! The fair queue: the next task is from the tenant, among those with due tasks, whose last turn is the oldest.
//!
//! Used by [`Tasks`](crate::embedded::tasks::Tasks), which reports every added, moved or removed task. With `k`
//! tenants that have due tasks, each of them gets one of any `k` turns, whatever the others have waiting. Every
//! operation takes O(log n).

use crate::{TaskId, Timestamp};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// A tenant's share of the turns, numbered as tenants were first seen; the platform's own executions have one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TenantSlot(u32);

impl TenantSlot {
    fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// The order of a tenant's slot; equal ones sort by name.
type NamedSlot = (Arc<str>, TenantSlot);

struct TenantQueue {
    name: Arc<str>,
    /// The tasks, by the time from which they can be leased.
    tasks: BTreeSet<(Timestamp, TaskId)>,
    /// The number of its last turn; 0 if it never had one.
    last_turn: u64,
}

impl TenantQueue {
    fn first(&self) -> Option<Timestamp> {
        self.tasks.first().map(|(available, _)| *available)
    }
}

/// The tasks of a store by tenant.
#[derive(Default)]
pub(crate) struct FairQueue {
    names: HashMap<Arc<str>, TenantSlot>,
    /// By slot. A tenant without tasks keeps its place; otherwise it could return like a new tenant.
    queues: Vec<TenantQueue>,
    /// Every tenant with tasks, by its first one.
    firsts: BTreeSet<(Timestamp, NamedSlot)>,
    /// The tenants with a due task, by their last turn; among equals by the age of their oldest task.
    ready: BTreeSet<(u64, Timestamp, NamedSlot)>,
    now: Timestamp,
    turns: u64,
}

impl FairQueue {
    /// Returns the slot of this name.
    pub(crate) fn slot_of(&mut self, name: &str) -> TenantSlot {
        if let Some(slot) = self.names.get(name) {
            return *slot;
        }
        let slot = TenantSlot(u32::try_from(self.queues.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        self.names.insert(name.clone(), slot);
        self.queues.push(TenantQueue { name, tasks: BTreeSet::new(), last_turn: 0 });
        slot
    }

    /// Fills the queue of an empty slot. Sets built at once need half the memory of sets that grow.
    pub(crate) fn fill(&mut self, slot: TenantSlot, tasks: Vec<(Timestamp, TaskId)>) {
        self.change(slot, |queue| queue.tasks = tasks.into_iter().collect());
    }

    pub(crate) fn insert(&mut self, slot: TenantSlot, available: Timestamp, id: TaskId) {
        self.change(slot, |queue| queue.tasks.insert((available, id)));
    }

    pub(crate) fn remove(&mut self, slot: TenantSlot, available: Timestamp, id: TaskId) {
        self.change(slot, |queue| queue.tasks.remove(&(available, id)));
    }

    /// Records a turn of the tenant.
    pub(crate) fn mark_served(&mut self, slot: TenantSlot) {
        self.turns = self.turns.saturating_add(1);
        let turn = self.turns;
        self.change(slot, |queue| queue.last_turn = turn);
    }

    /// Returns the next tenant at `now` and its task; skips tasks in `excluded`.
    pub(crate) fn next(&mut self, now: Timestamp, excluded: impl Fn(TaskId) -> bool) -> Option<TaskId> {
        self.advance_to(now);
        self.ready.iter().find_map(|(_, _, (_, slot))| {
            let due =
                self.queues.get(slot.index())?.tasks.iter().take_while(|(available, _)| *available <= now);
            due.map(|(_, id)| *id).find(|id| !excluded(*id))
        })
    }

    /// Returns when the next task can be leased.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.firsts.first().map(|(first, _)| *first)
    }

    fn change<T>(&mut self, slot: TenantSlot, change: impl FnOnce(&mut TenantQueue) -> T) {
        let Some(queue) = self.queues.get_mut(slot.index()) else { return };
        let (first, served) = (queue.first(), queue.last_turn);
        change(queue);
        if (first, served) == (queue.first(), queue.last_turn) {
            return;
        }
        let named = (queue.name.clone(), slot);
        if let Some(first) = first {
            self.firsts.remove(&(first, named.clone()));
            self.ready.remove(&(served, first, named.clone()));
        }
        if let Some(first) = queue.first() {
            self.firsts.insert((first, named.clone()));
            if first <= self.now {
                self.ready.insert((queue.last_turn, first, named));
            }
        }
    }

    /// Moves `now`, forward or backward; only tenants whose first task is between are examined.
    fn advance_to(&mut self, now: Timestamp) {
        let first_name: Arc<str> = "".into();
        let from = |at: Timestamp| (Timestamp(at.0.saturating_add(1)), (first_name.clone(), TenantSlot(0)));
        let (earlier, later) = (self.now.min(now), self.now.max(now));
        for (first, named) in self.firsts.range(from(earlier)..from(later)) {
            let served = self.queues.get(named.1.index()).map_or(0, |queue| queue.last_turn);
            let entry = (served, *first, named.clone());
            if now > self.now {
                self.ready.insert(entry);
            } else {
                self.ready.remove(&entry);
            }
        }
        self.now = now;
    }
}
