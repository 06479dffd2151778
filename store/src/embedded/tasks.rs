//! Which tasks there are, when each is due, and who holds it: all in memory, built on opening.
//!
//! Leases do not outlive the process. Epochs do grow over restarts: their upper half counts how often the store was
//! opened. A task whose settling is on its way to the disk is not handed out meanwhile. Tenants take turns: `rota.rs`.

pub(crate) mod fair_queue;

use crate::embedded::tasks::fair_queue::{Rota, Share};
use crate::{Epoch, ExecutionId, Sequence, TaskId, Timestamp};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is known of a task beside its body and who has it. There may be millions, so that each byte counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) due: Timestamp,
    /// The commit that scheduled it anew; deliveries count from there.
    pub(crate) since: Sequence,
    pub(crate) deliveries: u32,
    /// Whose it is.
    share: Share,
}

#[derive(Clone, Copy, Debug)]
struct Grip {
    epoch: Epoch,
    until: Timestamp,
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
    /// Of those that somebody has: few.
    grips: HashMap<TaskId, Grip>,
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
        self.grips.get(&id).is_some_and(|grip| grip.epoch == epoch)
    }

    /// Keeps `id` from being handed out until [`Tasks::apply`] or [`Tasks::unclaim`].
    pub(crate) fn claim(&mut self, id: TaskId) {
        self.settling.insert(id);
    }

    pub(crate) fn unclaim(&mut self, id: TaskId) {
        self.settling.remove(&id);
    }

    /// When a task can be handed out; `grip` is that of who has it.
    fn available(held: &Held, grip: Option<&Grip>) -> Timestamp {
        grip.map_or(held.due, |grip| grip.until.max(held.due))
    }

    fn insert(&mut self, id: TaskId, held: Held, grip: Option<Grip>) {
        self.remove(id);
        self.rota.insert(held.share, Self::available(&held, grip.as_ref()), id);
        self.held.insert(id, held);
        self.grips.extend(grip.map(|grip| (id, grip)));
    }

    fn remove(&mut self, id: TaskId) {
        let grip = self.grips.remove(&id);
        if let Some(former) = self.held.remove(&id) {
            self.rota.remove(former.share, Self::available(&former, grip.as_ref()), id);
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
                let grip = kept.and_then(|_| self.grips.get(&id)).copied();
                let share = self.rota.share(&tenant);
                self.insert(id, Held { due, since, deliveries, share }, grip);
            }
            Change::Tenant(execution, tenant) => {
                let share = self.rota.share(&tenant);
                let all = |n| TaskId { execution, visit: n, slot: n };
                let tasks = self.held.range(all(0)..=all(u32::MAX));
                let tasks: Vec<(TaskId, Held)> = tasks.map(|(id, held)| (*id, *held)).collect();
                for (id, held) in tasks {
                    let grip = self.grips.get(&id).copied();
                    self.insert(id, Held { share, ..held }, grip);
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
        let mut held = *self.held.get(&id)?;
        self.last_epoch = self.last_epoch.saturating_add(1);
        let epoch = Epoch(self.last_epoch);
        held.deliveries = held.deliveries.saturating_add(1);
        self.insert(id, held, Some(Grip { epoch, until }));
        let Held { due, since, deliveries, share } = held;
        self.rota.served(share);
        Some(Picked { id, due, since, epoch, deliveries, until })
    }

    /// Whether the lease was there to prolong.
    pub(crate) fn renew(&mut self, id: TaskId, epoch: Epoch, until: Timestamp) -> bool {
        self.change(id, epoch, |held, grip| (held, Some(Grip { until: grip.until.max(until), ..grip })))
    }

    pub(crate) fn release(&mut self, id: TaskId, epoch: Epoch, due: Timestamp, deliveries: u32) {
        self.change(id, epoch, |held, _| (Held { due, deliveries, ..held }, None));
    }

    /// Makes a task that nobody holds due at `due`, if it would be due later; says whether there is one.
    pub(crate) fn hasten(&mut self, id: TaskId, due: Timestamp) -> bool {
        let Some(held) = self.held.get(&id).filter(|_| !self.grips.contains_key(&id)).copied() else {
            return false;
        };
        if due < held.due {
            self.insert(id, Held { due, ..held }, None);
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
            self.rota.remove(held.share, Self::available(held, self.grips.get(&id)), id);
        }
    }

    fn change(
        &mut self,
        id: TaskId,
        epoch: Epoch,
        change: impl FnOnce(Held, Grip) -> (Held, Option<Grip>),
    ) -> bool {
        let Some(held) = self.held.get(&id).copied() else { return false };
        let Some(grip) = self.grips.get(&id).filter(|grip| grip.epoch == epoch).copied() else {
            return false;
        };
        let (held, grip) = change(held, grip);
        self.insert(id, held, grip);
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

/// The tasks found on opening. Trees that are made of all there is have full nodes, and take half the memory of those that grow.
pub(crate) struct Restoring {
    tasks: Tasks,
    held: Vec<(TaskId, Held)>,
    queues: BTreeMap<Share, Vec<(Timestamp, TaskId)>>,
}

impl Restoring {
    /// Epochs begin above all that earlier openings gave out.
    pub(crate) fn new(opens: u64) -> Self {
        Self { tasks: Tasks::new(opens), held: Vec::new(), queues: BTreeMap::new() }
    }

    /// Adds a task of `tenant` that nobody has.
    pub(crate) fn add(&mut self, id: TaskId, due: Timestamp, since: Sequence, deliveries: u32, tenant: &str) {
        let share = self.tasks.rota.share(tenant);
        self.held.push((id, Held { due, since, deliveries, share }));
        self.queues.entry(share).or_default().push((due, id));
    }

    pub(crate) fn end(mut self) -> Tasks {
        self.tasks.held = self.held.into_iter().collect();
        for (share, tasks) in self.queues {
            self.tasks.rota.fill(share, tasks);
        }
        self.tasks
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
            let mut found = Restoring::new(opens);
            found.add(task(), Timestamp(1), Sequence(1), 0, "");
            let mut tasks = found.end();
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
