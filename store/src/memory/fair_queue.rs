//! The fair queue in its simplest form: it examines all due tasks.

use super::{State, TaskState};
use crate::{TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The due tasks by tenant.
pub(super) type Due = BTreeMap<String, BTreeSet<(Timestamp, TaskId)>>;

impl State {
    pub(super) fn due_by_tenant(&self, now: Timestamp) -> Due {
        let mut due = Due::new();
        for held in self.tasks.values().filter(|held| held.available() <= now) {
            due.entry(self.tenant_of(held)).or_default().insert((held.available(), held.task.id));
        }
        due
    }

    fn tenant_of(&self, held: &TaskState) -> String {
        self.records.get(&held.task.id.execution).map_or_else(String::new, |record| record.tenant.clone())
    }

    /// Removes the next task from `due`: from the tenant whose last turn is the oldest, or among equals the oldest
    /// task.
    pub(super) fn take_turn(&mut self, due: &mut Due) -> Option<TaskId> {
        let served = |tenant: &String| self.served.get(tenant).copied().unwrap_or(0);
        let firsts = due.iter().filter_map(|(tenant, tasks)| {
            let (available, id) = tasks.first()?;
            Some((served(tenant), *available, tenant, *id))
        });
        let (_, available, tenant, id) = firsts.min()?;
        let tenant = tenant.clone();
        self.turns = self.turns.saturating_add(1);
        due.get_mut(&tenant)?.remove(&(available, id));
        self.served.insert(tenant, self.turns);
        Some(id)
    }
}
