//! The tasks of the store, with their due times and leases: only in memory, built on opening.
//!
//! Leases do not outlive the process. Epochs grow over restarts: their upper half counts the openings of the store. A
//! task that is being settled is not leased meanwhile. Tenants take turns: `fair_queue.rs`.

pub(crate) mod fair_queue;

use crate::{
    Epoch, ExecutionId, Sequence, TaskId, Timestamp,
    embedded::tasks::fair_queue::{FairQueue, TenantSlot},
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The state of a task without its body and its lease. There may be millions, so each byte counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskState {
    pub(crate) due: Timestamp,
    /// The commit that last scheduled it; deliveries count from there.
    pub(crate) since: Sequence,
    pub(crate) deliveries: u32,
    /// Its tenant.
    tenant_slot: TenantSlot,
}

#[derive(Clone, Copy, Debug)]
struct ActiveLease {
    epoch: Epoch,
    until: Timestamp,
}

/// A change of a task by a commit.
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

/// A task that was just leased.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickedTask {
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
    states: BTreeMap<TaskId, TaskState>,
    /// The leased tasks: few.
    leases: HashMap<TaskId, ActiveLease>,
    queue: FairQueue,
    settling: HashSet<TaskId>,
    last_epoch: u64,
}

impl Tasks {
    /// Creates an empty set; epochs begin above all those of earlier openings.
    pub(crate) fn new(opens: u64) -> Self {
        Self { last_epoch: opens << 32, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&TaskState> {
        self.states.get(&id)
    }

    pub(crate) fn is_held_under(&self, id: TaskId, epoch: Epoch) -> bool {
        self.leases.get(&id).is_some_and(|lease| lease.epoch == epoch)
    }

    /// Prevents a lease of `id` until [`Tasks::apply`] or [`Tasks::unclaim`].
    pub(crate) fn claim(&mut self, id: TaskId) {
        self.settling.insert(id);
    }

    pub(crate) fn unclaim(&mut self, id: TaskId) {
        self.settling.remove(&id);
    }

    /// Returns when a task can be leased; `lease` is its current lease.
    fn available(held: &TaskState, lease: Option<&ActiveLease>) -> Timestamp {
        lease.map_or(held.due, |lease| lease.until.max(held.due))
    }

    fn insert(&mut self, id: TaskId, held: TaskState, lease: Option<ActiveLease>) {
        self.remove(id);
        self.queue.insert(held.tenant_slot, Self::available(&held, lease.as_ref()), id);
        self.states.insert(id, held);
        self.leases.extend(lease.map(|lease| (id, lease)));
    }

    fn remove(&mut self, id: TaskId) {
        let lease = self.leases.remove(&id);
        if let Some(former) = self.states.remove(&id) {
            self.queue.remove(former.tenant_slot, Self::available(&former, lease.as_ref()), id);
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Remove(id) => {
                self.settling.remove(&id);
                self.remove(id);
            }
            Change::Put { id, due, since, tenant } => {
                let kept = self.states.get(&id).filter(|held| held.since == since);
                let deliveries = kept.map_or(0, |held| held.deliveries);
                let lease = kept.and_then(|_| self.leases.get(&id)).copied();
                let tenant_slot = self.queue.slot_of(&tenant);
                self.insert(id, TaskState { due, since, deliveries, tenant_slot }, lease);
            }
            Change::Tenant(execution, tenant) => {
                let tenant_slot = self.queue.slot_of(&tenant);
                let all = |n| TaskId { execution, visit: n, slot: n };
                let tasks = self.states.range(all(0)..=all(u32::MAX));
                let tasks: Vec<(TaskId, TaskState)> = tasks.map(|(id, held)| (*id, *held)).collect();
                for (id, held) in tasks {
                    let lease = self.leases.get(&id).copied();
                    self.insert(id, TaskState { tenant_slot, ..held }, lease);
                }
            }
        }
    }

    /// Leases up to `limit` tasks that are available at `now`, until `until`: one for each turn of a tenant, ordered by due time.
    pub(crate) fn pick(&mut self, now: Timestamp, until: Timestamp, limit: usize) -> Vec<PickedTask> {
        let mut picked = Vec::new();
        while picked.len() < limit {
            let Some(id) = self.first(now) else { break };
            picked.extend(self.hand_out(id, until));
        }
        picked
    }

    /// Returns the task that [`Tasks::pick`] would lease first.
    pub(crate) fn first(&mut self, now: Timestamp) -> Option<TaskId> {
        let settling = &self.settling;
        self.queue.next(now, |id| settling.contains(&id))
    }

    fn hand_out(&mut self, id: TaskId, until: Timestamp) -> Option<PickedTask> {
        let mut held = *self.states.get(&id)?;
        self.last_epoch = self.last_epoch.saturating_add(1);
        let epoch = Epoch(self.last_epoch);
        held.deliveries = held.deliveries.saturating_add(1);
        self.insert(id, held, Some(ActiveLease { epoch, until }));
        let TaskState { due, since, deliveries, tenant_slot } = held;
        self.queue.mark_served(tenant_slot);
        Some(PickedTask { id, due, since, epoch, deliveries, until })
    }

    /// Returns true if there was a lease to renew.
    pub(crate) fn renew(&mut self, id: TaskId, epoch: Epoch, until: Timestamp) -> bool {
        self.change(id, epoch, |held, lease| {
            (held, Some(ActiveLease { until: lease.until.max(until), ..lease }))
        })
    }

    pub(crate) fn release(&mut self, id: TaskId, epoch: Epoch, due: Timestamp, deliveries: u32) {
        self.change(id, epoch, |held, _| (TaskState { due, deliveries, ..held }, None));
    }

    /// Makes an unleased task due at `due`, if it would be due later. Returns false if it does not exist.
    pub(crate) fn hasten(&mut self, id: TaskId, due: Timestamp) -> bool {
        let Some(held) = self.states.get(&id).filter(|_| !self.leases.contains_key(&id)).copied() else {
            return false;
        };
        if due < held.due {
            self.insert(id, TaskState { due, ..held }, None);
        }
        true
    }

    /// Counts every task as delivered at least once.
    pub(crate) fn count_all(&mut self) {
        self.states.values_mut().for_each(|held| held.deliveries = held.deliveries.max(1));
    }

    /// Defers a task whose body cannot be read.
    pub(crate) fn exclude(&mut self, id: TaskId) {
        if let Some(held) = self.states.get(&id) {
            self.queue.remove(held.tenant_slot, Self::available(held, self.leases.get(&id)), id);
        }
    }

    fn change(
        &mut self,
        id: TaskId,
        epoch: Epoch,
        change: impl FnOnce(TaskState, ActiveLease) -> (TaskState, Option<ActiveLease>),
    ) -> bool {
        let Some(held) = self.states.get(&id).copied() else { return false };
        let Some(lease) = self.leases.get(&id).filter(|lease| lease.epoch == epoch).copied() else {
            return false;
        };
        let (held, lease) = change(held, lease);
        self.insert(id, held, lease);
        true
    }

    /// Returns when the next task can be leased.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.queue.first()
    }

    /// The last epoch that was given out.
    pub(crate) fn last_epoch(&self) -> Epoch {
        Epoch(self.last_epoch)
    }

    /// All tasks that have been delivered at least once.
    pub(crate) fn delivered(&self) -> impl Iterator<Item = (TaskId, &TaskState)> {
        self.states.iter().filter(|(_, held)| held.deliveries > 0).map(|(id, held)| (*id, held))
    }
}

/// The tasks found on opening. Trees built at once have full nodes, and need half the memory of trees that grow.
pub(crate) struct TasksBuilder {
    tasks: Tasks,
    held: Vec<(TaskId, TaskState)>,
    queues: BTreeMap<TenantSlot, Vec<(Timestamp, TaskId)>>,
}

impl TasksBuilder {
    /// Epochs begin above all those of earlier openings.
    pub(crate) fn new(opens: u64) -> Self {
        Self { tasks: Tasks::new(opens), held: Vec::new(), queues: BTreeMap::new() }
    }

    /// Adds a task of `tenant` without a lease.
    pub(crate) fn add(&mut self, id: TaskId, due: Timestamp, since: Sequence, deliveries: u32, tenant: &str) {
        let tenant_slot = self.tasks.queue.slot_of(tenant);
        self.held.push((id, TaskState { due, since, deliveries, tenant_slot }));
        self.queues.entry(tenant_slot).or_default().push((due, id));
    }

    pub(crate) fn build(mut self) -> Tasks {
        self.tasks.states = self.held.into_iter().collect();
        for (tenant_slot, tasks) in self.queues {
            self.tasks.queue.fill(tenant_slot, tasks);
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
    fn a_task_that_is_being_settled_is_not_leased() {
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
            let mut found = TasksBuilder::new(opens);
            found.add(task(), Timestamp(1), Sequence(1), 0, "");
            let mut tasks = found.build();
            tasks.pick(Timestamp(1), Timestamp(10), 1).remove(0).epoch
        };
        assert!(first(3) < first(4));
    }

    #[test]
    fn a_rescheduled_task_loses_its_lease_and_deliveries() {
        let mut tasks = Tasks::new(1);
        tasks.apply(put(1));
        let held = tasks.pick(Timestamp(1), Timestamp(10), 9).remove(0);

        tasks.apply(put(2));

        assert!(!tasks.is_held_under(task(), held.epoch));
        assert_eq!(tasks.pick(Timestamp(1), Timestamp(10), 9).remove(0).deliveries, 1);
        assert_eq!(tasks.len(), 1);
    }
}
