//! Work that only another version of this program can do: handed back at once, for shorter pauses first, and left to
//! others to take first.
//!
//! While servers are replaced one by one, executions of the newer version lie beside those of the older. A server of
//! the older cannot tell a task that it cannot work on before it has leased it. If it kept it for long, three such
//! servers would starve the only one that can; if it handed it back at once, it would be the first to take it again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use store::{TaskId, Timestamp};

/// The first pause of a task; each one after is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long others go first after something was met that only they can do, and by how much.
const YIELD_FOR: Duration = Duration::from_secs(5);
const YIELD_BY: Duration = Duration::from_millis(30);
/// Of more tasks than these it is forgotten how often they were met: their pauses begin anew.
const MAX_TASKS: usize = 10_000;

/// What this engine has met and could not do.
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
    /// Notes that `task` was met, and says how long it is put off, `longest` at the most, and whether this is
    /// the first time.
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

    /// How long this engine waits before it asks for work, so that those who can do more go first.
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

    /// A task of an execution that has come so far.
    fn id(visit: u32) -> TaskId {
        TaskId { execution: ExecutionId::new(Timestamp(1), [1; 10]), visit, slot: 0 }
    }

    #[test]
    fn pauses_begin_short_grow_to_a_minute_and_are_each_tasks_own() {
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
    fn others_go_first_for_a_while_after_something_was_met_and_not_before() {
        let elsewhere = VersionRouting::default();
        assert_eq!(elsewhere.yields(Timestamp(1_000)), None);
        elsewhere.defer(id(1), Timestamp(1_000), MINUTE);
        assert_eq!(elsewhere.yields(Timestamp(5_999)), Some(YIELD_BY));
        assert_eq!(elsewhere.yields(Timestamp(1_000).after(YIELD_FOR + SECOND)), None);
    }
}
