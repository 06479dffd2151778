//! The database's machine: processors that all statements share, a log with group sync, and the one lock of commits.

use super::clockwork::Moment;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// The id of a statement or transaction in progress.
pub type JobId = u32;

/// Evenly shared processors: of `n` jobs each gets `processors / n` of one, and at most one.
#[derive(Debug)]
pub struct Processors {
    count: u64,
    /// The work that each job has received since the start, in thousandths of a microsecond.
    given: u64,
    at: Moment,
    running: BinaryHeap<Reverse<(u64, u64, JobId)>>,
    order: u64,
    still: bool,
    busy: u128,
}

impl Processors {
    /// A server with `count` processors.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self { count, given: 0, at: 0, running: BinaryHeap::new(), order: 0, still: false, busy: 0 }
    }

    fn advance(&mut self, now: Moment) {
        let jobs = self.running.len() as u64;
        if jobs > 0 && !self.still {
            let spent = (now - self.at) * 1_000;
            self.given += if jobs <= self.count { spent } else { spent * self.count / jobs };
            self.busy += u128::from(now - self.at) * u128::from(jobs.min(self.count));
        }
        self.at = now;
    }

    /// Begins a job of `work` microseconds.
    pub fn begin(&mut self, now: Moment, job: JobId, work: u64) {
        self.advance(now);
        self.order += 1;
        self.running.push(Reverse((self.given + work.max(1) * 1_000, self.order, job)));
    }

    /// Returns when the next job will be done, if none begins before.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        let Reverse((until, _, _)) = self.running.peek()?;
        if self.still {
            return None;
        }
        let (left, jobs) = (until.saturating_sub(self.given), self.running.len() as u64);
        let wait = if jobs <= self.count { left } else { left * jobs / self.count };
        Some(self.at + wait.div_ceil(1_000))
    }

    /// Returns a job that is done now, if there is one.
    pub fn done(&mut self, now: Moment) -> Option<JobId> {
        self.advance(now);
        let Reverse((until, _, job)) = *self.running.peek()?;
        // The rest is less than the unit of time.
        let rest = 1_000 * self.count.min(self.running.len() as u64) / self.running.len() as u64;
        if self.still || until > self.given + rest {
            return None;
        }
        self.running.pop();
        Some(job)
    }

    /// Pauses, or continues.
    pub fn stand_still(&mut self, now: Moment, still: bool) {
        self.advance(now);
        self.still = still;
    }

    /// Returns the used processor time so far, in microseconds.
    #[must_use]
    pub fn busy(&self) -> u128 {
        self.busy
    }
}

/// The log: one sync at a time, for all waiters that came before its start.
#[derive(Debug, Default)]
pub struct Log {
    syncing: Vec<JobId>,
    waiting: Vec<JobId>,
}

impl Log {
    /// Requests a sync; returns true if one must be started.
    pub fn want(&mut self, job: JobId) -> bool {
        if self.syncing.is_empty() {
            self.syncing.push(job);
            return true;
        }
        self.waiting.push(job);
        false
    }

    /// Returns the jobs of the current sync.
    #[must_use]
    pub fn syncing(&self) -> &[JobId] {
        &self.syncing
    }

    /// Returns the jobs of the finished sync, and true if another must be started.
    pub fn synced(&mut self) -> (Vec<JobId>, bool) {
        let done = std::mem::replace(&mut self.syncing, std::mem::take(&mut self.waiting));
        (done, !self.syncing.is_empty())
    }
}

/// The lock of the committing transaction; others wait in their order.
#[derive(Debug, Default)]
pub struct Lock {
    owner: Option<JobId>,
    waiting: VecDeque<JobId>,
    since: Moment,
    held: u64,
}

impl Lock {
    /// Requests the lock; returns true if it is acquired at once.
    pub fn want(&mut self, now: Moment, job: JobId) -> bool {
        if self.owner.is_none() {
            self.owner = Some(job);
            self.since = now;
            return true;
        }
        self.waiting.push_back(job);
        false
    }

    /// Releases the lock; returns its next holder.
    pub fn release(&mut self, now: Moment) -> Option<JobId> {
        self.held += now - self.since;
        self.since = now;
        self.owner = self.waiting.pop_front();
        self.owner
    }

    /// Returns its holder.
    #[must_use]
    pub fn owner(&self) -> Option<JobId> {
        self.owner
    }

    /// Returns for how long it was held so far, in microseconds.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }
}
