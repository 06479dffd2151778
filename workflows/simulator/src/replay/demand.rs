//! The lifecycle of a demand in a replay: queued, running, evicted, running again, done.

use std::time::Duration;
use store::Timestamp;

/// The state of a demand, as the replay has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemandPhase {
    /// The demand is not submitted yet.
    Ahead,
    /// Queued.
    Waiting,
    /// Running.
    Running,
    /// Done.
    Done,
    /// Rejected permanently.
    Rejected,
}

/// The state of one demand.
#[derive(Clone, Debug)]
pub(crate) struct DemandState {
    pub(crate) stage: DemandPhase,
    /// The number of starts. A planned end of an earlier run is ignored.
    pub(crate) run: u32,
    /// The time of its submission.
    pub(crate) asked: Timestamp,
    /// The start of the current state.
    pub(crate) since: Timestamp,
    /// True if it arrived inside its workspace's reservation.
    pub(crate) inside: bool,
    /// True if it has run.
    pub(crate) ran: bool,
    /// The remaining work; `None` means until the end.
    pub(crate) left: Option<Duration>,
    /// The time of the last eviction.
    pub(crate) evicted: Option<Timestamp>,
    /// The number of evictions in the ledger.
    pub(crate) evictions: u32,
    /// True while it is a victim.
    pub(crate) called: bool,
    /// True if it is a victim for a demand, not of an overdue loan.
    pub(crate) for_demand: bool,
}

impl DemandState {
    pub(crate) fn new(left: Option<Duration>) -> Self {
        Self {
            stage: DemandPhase::Ahead,
            run: 0,
            asked: Timestamp::default(),
            since: Timestamp::default(),
            inside: false,
            ran: false,
            left,
            evicted: None,
            evictions: 0,
            called: false,
            for_demand: false,
        }
    }

    /// Starts at `now`. Returns the time at which its work is done.
    pub(crate) fn begin(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.stage = DemandPhase::Running;
        self.run += 1;
        (self.since, self.ran) = (now, true);
        self.left.map(|left| now.after(left))
    }

    /// Evicts it at `now` and queues it again. Keeps its progress if it has checkpoints; otherwise returns the lost
    /// time.
    pub(crate) fn evict(&mut self, now: Timestamp, saves: bool) -> Duration {
        let worked = now.since(self.since);
        self.stage = DemandPhase::Waiting;
        (self.since, self.evicted, self.called) = (now, Some(now), false);
        if saves {
            self.left = self.left.map(|left| left.saturating_sub(worked));
            Duration::ZERO
        } else {
            worked
        }
    }
}
