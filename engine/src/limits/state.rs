//! The limits in the memory of an engine: cached rules, waiting tasks, and active tasks.

use super::{rule::LimitRules, waiters::WaitQueues};
use crate::{Limiter, Permit, model::definition::action::Heartbeat};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::{ExecutionId, TaskId, Timestamp};
use tokio::sync::{Notify, watch};

/// Attempts of one process that change the same limiter wait here, so that they do not conflict in the store.
const KEY_LOCKS: usize = 64;

/// The limits in the memory of an engine. They are lost with the process and rebuilt.
pub(crate) struct LimitState {
    pub(crate) rules: Mutex<Option<(Timestamp, Arc<LimitRules>)>>,
    queues: Mutex<WaitQueues>,
    active_tasks: Mutex<BTreeMap<TaskId, ActiveTask>>,
    turnstiles: [tokio::sync::Mutex<()>; KEY_LOCKS],
}

/// A task that has acquired its keys.
#[derive(Clone, Debug)]
pub(crate) struct ActiveTask {
    /// The keys at which it may have a permit.
    pub(crate) keys: Vec<String>,
    /// True while an attempt runs. If false, its permits are kept until the next check.
    pub(crate) at_work: bool,
    /// Signals that the task is no longer needed, so that its attempt checks its lease.
    pub(crate) revoked: Arc<Notify>,
    /// The progress of its attempt, once it has begun.
    pub(crate) beats: Option<watch::Receiver<Heartbeat>>,
}

impl Default for LimitState {
    fn default() -> Self {
        Self {
            rules: Mutex::default(),
            queues: Mutex::default(),
            active_tasks: Mutex::default(),
            turnstiles: std::array::from_fn(|_| tokio::sync::Mutex::default()),
        }
    }
}

impl LimitState {
    pub(crate) fn queues(&self) -> MutexGuard<'_, WaitQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn active_tasks(&self) -> MutexGuard<'_, BTreeMap<TaskId, ActiveTask>> {
        self.active_tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the progress of a task's attempt available.
    pub(crate) fn listen(&self, task: TaskId, beats: watch::Receiver<Heartbeat>) {
        if let Some(inside) = self.active_tasks().get_mut(&task) {
            inside.beats = Some(beats);
        }
    }

    /// Returns the latest progress of a running attempt of `execution` in this process.
    pub(crate) fn progress_note(&self, execution: ExecutionId) -> Option<String> {
        let first = TaskId { execution, visit: 0, slot: 0 };
        let last = TaskId { execution, visit: u32::MAX, slot: u32::MAX };
        let inside = self.active_tasks();
        let mut at_work = inside.range(first..=last).filter(|(_, inside)| inside.at_work);
        at_work.find_map(|(_, inside)| {
            let note = inside.beats.as_ref()?.borrow().note.clone();
            (!note.is_empty()).then_some(note)
        })
    }

    /// Discards the cached rules.
    pub(crate) fn forget_rules(&self) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Locks these keys, so that one attempt of this process at a time changes their limiters.
    pub(crate) async fn lock_keys<'a>(
        &self,
        keys: impl Iterator<Item = &'a str>,
    ) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let hash = |key: &str| {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            hasher.finish() % KEY_LOCKS as u64
        };
        // All callers lock in the same order, which prevents deadlocks.
        let wanted: std::collections::BTreeSet<u64> = keys.map(hash).collect();
        let mut guards = Vec::new();
        for (place, lock) in (0..).zip(&self.turnstiles) {
            if wanted.contains(&place) {
                guards.push(lock.lock().await);
            }
        }
        guards
    }

    /// Adds the permits that an earlier process kept for pending actions.
    pub(crate) fn take_over(&self, gates: &[Limiter]) {
        let mut inside = self.active_tasks();
        let kept = |place: &&Permit| place.pending;
        for (gate, place) in
            gates.iter().flat_map(|gate| gate.places.iter().filter(kept).map(move |p| (gate, p)))
        {
            let new =
                || ActiveTask { keys: Vec::new(), at_work: false, revoked: Arc::default(), beats: None };
            let keys = &mut inside.entry(place.task).or_insert_with(new).keys;
            if !keys.contains(&gate.key) {
                keys.push(gate.key.clone());
            }
        }
    }
}
