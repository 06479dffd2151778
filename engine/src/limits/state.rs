//! What an engine remembers of limits beside the documents: the rules as last read, who waits, and who is inside.

use super::{rule::LimitRules, waiters::WaitQueues};
use crate::{Limiter, Permit, model::definition::action::Heartbeat};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::{ExecutionId, TaskId, Timestamp};
use tokio::sync::{Notify, watch};

/// Attempts of one process that change what stands at a key wait for each other here rather than conflict in the store.
const KEY_LOCKS: usize = 64;

/// What an engine remembers of limits; lost with the process, and found again.
pub(crate) struct LimitState {
    pub(crate) rules: Mutex<Option<(Timestamp, Arc<LimitRules>)>>,
    queues: Mutex<WaitQueues>,
    active_tasks: Mutex<BTreeMap<TaskId, ActiveTask>>,
    turnstiles: [tokio::sync::Mutex<()>; KEY_LOCKS],
}

/// A task that has passed its keys.
#[derive(Clone, Debug)]
pub(crate) struct ActiveTask {
    /// Those at which it may have left something.
    pub(crate) keys: Vec<String>,
    /// An attempt is under way; if not, its places are kept until it is looked at again.
    pub(crate) at_work: bool,
    /// Told when the task is not wanted any more, so that its attempt looks to its lease.
    pub(crate) revoked: Arc<Notify>,
    /// What its attempt says of how far it is, once that has begun.
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

    /// What a task's attempt says of how far it is can be asked for from now on.
    pub(crate) fn listen(&self, task: TaskId, beats: watch::Receiver<Heartbeat>) {
        if let Some(inside) = self.active_tasks().get_mut(&task) {
            inside.beats = Some(beats);
        }
    }

    /// What an attempt of `execution` that is under way here said last.
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

    /// Reads the rules anew next time.
    pub(crate) fn forget_rules(&self) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Lets one attempt of this process at a time change what stands at these keys.
    pub(crate) async fn lock_keys<'a>(
        &self,
        keys: impl Iterator<Item = &'a str>,
    ) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let hash = |key: &str| {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            hasher.finish() % KEY_LOCKS as u64
        };
        // In one order for everybody, so that no two wait for each other.
        let wanted: std::collections::BTreeSet<u64> = keys.map(hash).collect();
        let mut guards = Vec::new();
        for (place, lock) in (0..).zip(&self.turnstiles) {
            if wanted.contains(&place) {
                guards.push(lock.lock().await);
            }
        }
        guards
    }

    /// Notes the places that are kept for pending actions, as an earlier process left them.
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
