//! Tasks that only another version of this program can run. They are returned at once, with growing pauses.
//!
//! While servers are replaced one by one, the store has executions of both versions. An older server recognises a
//! task of the newer version only after leasing it. If it held the lease for long, three such servers would starve
//! the only capable one; if it returned the task at once, it would be the first to lease it again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use store::{TaskId, Timestamp};

/// The first pause of a task. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long, and by how much, this engine yields to others after such a task.
const YIELD_FOR: Duration = Duration::from_secs(5);
const YIELD_BY: Duration = Duration::from_millis(30);
/// The most tasks counted. Beyond it, the counts are cleared and pauses start again at the first.
const MAX_TASKS: usize = 10_000;

/// The tasks that this engine could not run.
#[derive(Debug, Default)]
pub(crate) struct VersionRouting {
    met: Mutex<SeenTasks>,
}

#[derive(Debug, Default)]
struct SeenTasks {
    times: BTreeMap<TaskId, u32>,
    last: Option<Timestamp>,
}

impl VersionRouting {
    /// Counts `task`. Returns how long it is deferred, at most `longest`, and whether it is the first time.
    pub(crate) fn defer(&self, task: TaskId, now: Timestamp, longest: Duration) -> (Duration, bool) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.last = Some(now);
        if met.times.len() >= MAX_TASKS && !met.times.contains_key(&task) {
            met.times.clear();
        }
        let times = met.times.entry(task).or_default();
        let pause = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(*times).unwrap_or(u32::MAX)).min(longest);
        let first = *times == 0;
        *times = times.saturating_add(1);
        (pause, first)
    }

    /// Returns how long this engine waits before it leases tasks, so that capable engines lease first.
    pub(crate) fn yields(&self, now: Timestamp) -> Option<Duration> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.last.filter(|last| last.is_recent(YIELD_FOR, now)).map(|_| YIELD_BY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MINUTE, SECOND};
    use store::ExecutionId;

    /// Returns the id of a task.
    fn id(visit: u32) -> TaskId {
        TaskId { execution: ExecutionId::new(Timestamp(1), [1; 10]), visit, slot: 0 }
    }

    #[test]
    fn pauses_start_short_grow_to_a_minute_and_are_counted_for_each_task() {
        let elsewhere = VersionRouting::default();
        let pauses: Vec<u64> =
            (0..40).map(|_| elsewhere.defer(id(1), Timestamp(1), MINUTE).0.as_millis() as u64).collect();

        assert_eq!(pauses[..5], [100, 200, 400, 800, 1_600]);
        assert!(pauses.windows(2).all(|two| two[0] <= two[1]), "{pauses:?}");
        assert_eq!(pauses[39], 60_000);
        assert_eq!(elsewhere.defer(id(2), Timestamp(1), MINUTE), (FIRST_PAUSE, true));
        assert!(!elsewhere.defer(id(2), Timestamp(1), MINUTE).1);
    }

    #[test]
    fn others_lease_first_for_a_while_after_a_task_of_another_version() {
        let elsewhere = VersionRouting::default();
        assert_eq!(elsewhere.yields(Timestamp(1_000)), None);
        elsewhere.defer(id(1), Timestamp(1_000), MINUTE);
        assert_eq!(elsewhere.yields(Timestamp(5_999)), Some(YIELD_BY));
        assert_eq!(elsewhere.yields(Timestamp(1_000).after(YIELD_FOR + SECOND)), None);
    }
}
