//! The life of one demand in a replay: asked for, running, evicted, running again, done.

use std::time::Duration;
use store::Timestamp;

/// Where it stands, as the replay has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemandPhase {
    /// Not asked for yet.
    Ahead,
    /// In line.
    Waiting,
    /// At work.
    Running,
    /// Done.
    Done,
    /// Told that it can never run.
    Rejected,
}

/// The life of one demand.
#[derive(Clone, Debug)]
pub(crate) struct DemandState {
    pub(crate) stage: DemandPhase,
    /// Counts how often it began to run; an end that was foreseen for an earlier run says nothing.
    pub(crate) run: u32,
    /// When it was asked for.
    pub(crate) asked: Timestamp,
    /// Since when it runs or waits.
    pub(crate) since: Timestamp,
    /// Whether it came inside its workspace's reservation.
    pub(crate) inside: bool,
    /// Whether it has ever run.
    pub(crate) ran: bool,
    /// What is left of its work; `None` until the end.
    pub(crate) left: Option<Duration>,
    /// When it was evicted last.
    pub(crate) evicted: Option<Timestamp>,
    /// How often it was, by the ledger.
    pub(crate) evictions: u32,
    /// Whether it is being evicted.
    pub(crate) called: bool,
    /// Whether that is for a demand, and not because its loan is overdue.
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

    /// Begins to run at `now`; says when its work is done.
    pub(crate) fn begin(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.stage = DemandPhase::Running;
        self.run += 1;
        (self.since, self.ran) = (now, true);
        self.left.map(|left| now.after(left))
    }

    /// Is taken from its GPUs at `now` and waits again. What it did since it began is kept if it saves its work; otherwise
    /// that is lost, and said.
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
