//! Which tasks there are, when each is due, and who holds it: all in memory, built on opening.
//!
//! Leases do not outlive the process. Epochs do grow over restarts: their upper half counts how often the store was
//! opened. A task whose settling is on its way to the disk is not handed out meanwhile. Tenants take turns: `rota.rs`.

use super::rota::{Rota, Share};
use crate::{Epoch, ExecutionId, Sequence, TaskId, Timestamp};
use std::collections::{BTreeMap, HashSet};

/// What is known of a task beside its body.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) due: Timestamp,
    /// The commit that scheduled it anew; deliveries count from there.
    pub(crate) since: Sequence,
    pub(crate) deliveries: u32,
    /// Whose it is.
    share: Share,
    grip: Option<Grip>,
}

#[derive(Clone, Copy, Debug)]
struct Grip {
    epoch: Epoch,
    until: Timestamp,
}

impl Held {
    fn available(&self) -> Timestamp {
        self.grip.map_or(self.due, |grip| grip.until.max(self.due))
    }
}

/// How a commit changes a task.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Remove(TaskId),
    Put {
        id: TaskId,
        due: Timestamp,
        since: Sequence,
        tenant: String,
    },
    /// An execution is of this tenant from now on, and so are its tasks.
    Tenant(ExecutionId, String),
}

/// A task just handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked {
    pub(crate) id: TaskId,
    pub(crate) due: Timestamp,
    pub(crate) since: Sequence,
    pub(crate) epoch: Epoch,
    pub(crate) deliveries: u32,
    pub(crate) until: Timestamp,
}

/// The tasks of a store.
#[derive(Default)]
pub(crate) struct Tasks {
    held: BTreeMap<TaskId, Held>,
    rota: Rota,
    settling: HashSet<TaskId>,
    last_epoch: u64,
}

impl Tasks {
    /// No tasks yet; epochs begin above all that earlier openings gave out.
    pub(crate) fn new(opens: u64) -> Self {
        Self { last_epoch: opens << 32, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Held> {
        self.held.get(&id)
    }

    pub(crate) fn is_held_under(&self, id: TaskId, epoch: Epoch) -> bool {
        self.held.get(&id).and_then(|held| held.grip).is_some_and(|grip| grip.epoch == epoch)
    }

    /// Keeps `id` from being handed out until [`Tasks::apply`] or [`Tasks::unclaim`].
    pub(crate) fn claim(&mut self, id: TaskId) {
        self.settling.insert(id);
    }

    pub(crate) fn unclaim(&mut self, id: TaskId) {
        self.settling.remove(&id);
    }

    /// Adds a task of `tenant` found on opening.
    pub(crate) fn restore(
        &mut self,
        id: TaskId,
        due: Timestamp,
        since: Sequence,
        deliveries: u32,
        tenant: &str,
    ) {
        let share = self.rota.share(tenant);
        self.insert(id, Held { due, since, deliveries, share, grip: None });
    }

    fn insert(&mut self, id: TaskId, held: Held) {
        self.remove(id);
        self.rota.insert(&held.share, held.available(), id);
        self.held.insert(id, held);
    }

    fn remove(&mut self, id: TaskId) {
        if let Some(former) = self.held.remove(&id) {
            self.rota.remove(&former.share, former.available(), id);
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Remove(id) => {
                self.settling.remove(&id);
                self.remove(id);
            }
            Change::Put { id, due, since, tenant } => {
                let kept = self.held.get(&id).filter(|held| held.since == since);
                let deliveries = kept.map_or(0, |held| held.deliveries);
                let grip = kept.and_then(|held| held.grip);
                let share = self.rota.share(&tenant);
                self.insert(id, Held { due, since, deliveries, share, grip });
            }
            Change::Tenant(execution, tenant) => {
                let share = self.rota.share(&tenant);
                let all = |n| TaskId { execution, visit: n, slot: n };
                let tasks = self.held.range(all(0)..=all(u32::MAX));
                let tasks: Vec<(TaskId, Held)> = tasks.map(|(id, held)| (*id, held.clone())).collect();
                for (id, held) in tasks {
                    self.insert(id, Held { share: share.clone(), ..held });
                }
            }
        }
    }

    /// Hands out up to `limit` tasks available at `now`, until `until`: one a tenant and turn, each tenant's by due.
    pub(crate) fn pick(&mut self, now: Timestamp, until: Timestamp, limit: usize) -> Vec<Picked> {
        let mut picked = Vec::new();
        while picked.len() < limit {
            let Some(id) = self.first(now) else { break };
            picked.extend(self.hand_out(id, until));
        }
        picked
    }

    /// What [`Tasks::pick`] would hand out first.
    pub(crate) fn first(&mut self, now: Timestamp) -> Option<TaskId> {
        let settling = &self.settling;
        self.rota.next(now, |id| settling.contains(&id))
    }

    fn hand_out(&mut self, id: TaskId, until: Timestamp) -> Option<Picked> {
        let mut held = self.held.get(&id)?.clone();
        self.last_epoch = self.last_epoch.saturating_add(1);
        let epoch = Epoch(self.last_epoch);
        held.deliveries = held.deliveries.saturating_add(1);
        held.grip = Some(Grip { epoch, until });
        let (due, since, deliveries, share) = (held.due, held.since, held.deliveries, held.share.clone());
        self.insert(id, held);
        self.rota.served(&share);
        Some(Picked { id, due, since, epoch, deliveries, until })
    }

    /// Whether the lease was there to prolong.
    pub(crate) fn renew(&mut self, id: TaskId, epoch: Epoch, until: Timestamp) -> bool {
        self.change(id, epoch, |held, grip| held.grip = Some(Grip { until: grip.until.max(until), ..grip }))
    }

    pub(crate) fn release(&mut self, id: TaskId, epoch: Epoch, due: Timestamp, deliveries: u32) {
        self.change(id, epoch, |held, _| {
            held.grip = None;
            held.due = due;
            held.deliveries = deliveries;
        });
    }

    /// Makes a task that nobody holds due at `due`, if it would be due later; says whether there is one.
    pub(crate) fn hasten(&mut self, id: TaskId, due: Timestamp) -> bool {
        let Some(held) = self.held.get(&id).filter(|held| held.grip.is_none()).cloned() else { return false };
        if due < held.due {
            self.insert(id, Held { due, ..held });
        }
        true
    }

    /// Counts every task as handed out at least once.
    pub(crate) fn count_all(&mut self) {
        self.held.values_mut().for_each(|held| held.deliveries = held.deliveries.max(1));
    }

    /// Keeps a task whose body cannot be read from being offered again and again.
    pub(crate) fn set_aside(&mut self, id: TaskId) {
        if let Some(held) = self.held.get(&id) {
            self.rota.remove(&held.share, held.available(), id);
        }
    }

    fn change(&mut self, id: TaskId, epoch: Epoch, change: impl FnOnce(&mut Held, Grip)) -> bool {
        let Some(mut held) = self.held.get(&id).cloned() else { return false };
        let Some(grip) = held.grip.filter(|grip| grip.epoch == epoch) else { return false };
        change(&mut held, grip);
        self.insert(id, held);
        true
    }

    /// When the next task can be handed out.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.rota.first()
    }

    /// The last epoch that was given out.
    pub(crate) fn last_epoch(&self) -> Epoch {
        Epoch(self.last_epoch)
    }

    /// All tasks that have been delivered at least once.
    pub(crate) fn delivered(&self) -> impl Iterator<Item = (TaskId, &Held)> {
        self.held.iter().filter(|(_, held)| held.deliveries > 0).map(|(id, held)| (*id, held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExecutionId;

    fn task() -> TaskId {
        TaskId { execution: ExecutionId::new(Timestamp(1), [0; 10]), visit: 1, slot: 0 }
    }

    fn put(since: u64) -> Change {
        Change::Put { id: task(), due: Timestamp(1), since: Sequence(since), tenant: "acme".into() }
    }

    #[test]
    fn a_task_whose_settling_is_on_its_way_is_not_handed_out() {
        let mut tasks = Tasks::new(1);
        tasks.apply(put(1));
        let held = tasks.pick(Timestamp(1), Timestamp(10), 9).remove(0);
        tasks.claim(task());

        let lapsed = tasks.pick(Timestamp(50), Timestamp(60), 9);

        assert!(lapsed.is_empty(), "{lapsed:?}");
        assert!(tasks.is_held_under(task(), held.epoch));
        tasks.unclaim(task());
        assert_eq!(tasks.pick(Timestamp(50), Timestamp(60), 9).len(), 1);
    }

    #[test]
    fn epochs_of_a_later_opening_are_greater() {
        let first = |opens| {
            let mut tasks = Tasks::new(opens);
            tasks.restore(task(), Timestamp(1), Sequence(1), 0, "");
            tasks.pick(Timestamp(1), Timestamp(10), 1).remove(0).epoch
        };
        assert!(first(3) < first(4));
    }

    #[test]
    fn a_task_scheduled_anew_forgets_its_lease_and_deliveries() {
        let mut tasks = Tasks::new(1);
        tasks.apply(put(1));
        let held = tasks.pick(Timestamp(1), Timestamp(10), 9).remove(0);

        tasks.apply(put(2));

        assert!(!tasks.is_held_under(task(), held.epoch));
        assert_eq!(tasks.pick(Timestamp(1), Timestamp(10), 9).remove(0).deliveries, 1);
        assert_eq!(tasks.len(), 1);
    }
}
