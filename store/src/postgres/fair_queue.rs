//! The fair queue of one process: which due task it takes next.

use crate::TaskId;
use std::collections::{BTreeMap, VecDeque};

/// The due tasks.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Tasks of a crashed holder, which are taken before others. They had their turn, so they do not count as one.
    pub(super) lapsed: Vec<TaskId>,
    /// The tasks of each tenant, earliest first.
    pub(super) others: BTreeMap<String, VecDeque<(i64, TaskId)>>,
}

impl Due {
    pub(super) fn len(&self) -> usize {
        self.lapsed.len().saturating_add(self.others.values().map(VecDeque::len).sum())
    }
}

/// When each tenant was last served by this process.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    served: BTreeMap<String, u64>,
    count: u64,
}

impl FairQueue {
    /// Takes up to `limit` due tasks: each time from the tenant whose last turn is the oldest, or among equals the
    /// oldest task.
    pub(super) fn choose(&mut self, due: Due, limit: usize) -> Vec<TaskId> {
        let Due { lapsed: mut chosen, others: mut due } = due;
        chosen.truncate(limit);
        while chosen.len() < limit {
            let firsts = due.iter().filter_map(|(tenant, tasks)| {
                let (available, id) = tasks.front()?;
                Some((self.served.get(tenant).copied().unwrap_or(0), *available, tenant, *id))
            });
            let Some((_, _, tenant, id)) = firsts.min() else { break };
            let tenant = tenant.clone();
            due.get_mut(&tenant).map(VecDeque::pop_front);
            self.count = self.count.saturating_add(1);
            self.served.insert(tenant, self.count);
            chosen.push(id);
        }
        chosen
    }
}
