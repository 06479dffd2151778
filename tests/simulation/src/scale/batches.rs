//! Commits: a node collects waiting commits and writes them in one transaction under the one lock, as `store/src/postgres` does;
//! and the server's side of every request.

use super::{
    Broken, Event, Model,
    clockwork::{MILLI, Moment},
    costs::{BATCH, STANDSTILL},
    nodes::{Ask, Job, kind},
    server::JobId,
    tasks::Id,
    told::Kind,
    work::{TIMER, WorkId},
};

/// The statement of a batch that takes the lock, counted from 0.
const LOCK: u64 = 1;
/// The statement after which the node decides.
const LOADED: u64 = 4;

/// A commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) work: WorkId,
    pub(crate) serial: u32,
    pub(crate) id: Id,
    pub(crate) epoch: u32,
    pub(crate) steps: u8,
    /// True if it records a task's result, false for a line of history.
    pub(crate) settles: bool,
    /// The result: true if it was accepted.
    pub(crate) accepted: bool,
}

/// A transaction of a node.
#[derive(Debug)]
pub(crate) struct Batch {
    commits: Vec<Commit>,
    job: JobId,
    tried: u32,
    /// True if the lock was taken from it, because it stopped.
    broken_off: bool,
    /// True once the node has done its own part.
    decided: bool,
    /// True while a statement is at the server.
    asked: bool,
}

impl Model {
    /// Lets `node` commit; [`Model::committed`] receives the answer.
    pub(crate) fn commit(&mut self, node: u16, commit: Commit) {
        self.node(node).inbox.push_back(commit);
        if self.node(node).batch.is_none() {
            self.begin_batch(node);
        }
    }

    fn begin_batch(&mut self, node: u16) {
        let it = self.node(node);
        let count = it.inbox.len().min(BATCH);
        if count == 0 {
            return;
        }
        let commits: Vec<Commit> = it.inbox.drain(..count).collect();
        self.told.batch(count);
        let job = self.job(node, Ask::Own, 0);
        self.node(node).batch =
            Some(Batch { commits, job, tried: 0, broken_off: false, decided: false, asked: false });
        let own = self.own(count) * (100 - self.size.costs.locked) / 100;
        self.by_itself(job, own, Ask::Batch(u64::MAX));
    }

    /// Returns the time that a node spends on a batch of `count`, in microseconds.
    fn own(&self, count: usize) -> u64 {
        self.size.costs.node_batch + self.size.costs.node_commit * count as u64
    }

    /// The node computes for `work` microseconds and then continues with `then`.
    fn by_itself(&mut self, job: JobId, work: u64, then: Ask) {
        self.jobs[job as usize].ask = then;
        self.jobs[job as usize].work = work;
        if self.size.costs.shared {
            self.told.used(Kind::Own, work);
            self.processors.begin(self.clock.now(), job, work);
            self.next_carried();
        } else {
            self.clock.after(work, Event::Answered(job));
        }
    }

    /// Sends the statement at this position.
    fn send(&mut self, job: JobId, place: u64) {
        let node = self.jobs[job as usize].node;
        let costs = self.size.costs;
        let Some(batch) = &mut self.nodes[usize::from(node)].batch else { return };
        batch.asked = true;
        let work =
            (costs.server_batch + costs.server_commit * batch.commits.len() as u64) / costs.round_trips;
        (self.jobs[job as usize].ask, self.jobs[job as usize].work) = (Ask::Batch(place), work);
        let wire = self.wire();
        self.clock.after(wire, Event::Asked(job));
    }

    /// An answer has arrived, or the node has done its own part.
    pub(crate) fn batch_answered(&mut self, job: JobId) {
        let Job { node, ask, .. } = self.jobs[job as usize].clone();
        let Ask::Batch(place) = ask else { return };
        let last = self.size.costs.round_trips - 1;
        let count;
        {
            let Some(batch) = &mut self.nodes[usize::from(node)].batch else { return };
            batch.asked = false;
            count = batch.commits.len();
            if batch.broken_off {
                // Starts again from the beginning.
                (batch.broken_off, batch.decided) = (false, false);
                batch.tried += 1;
                return self.send(job, 0);
            }
            if place == LOADED && !batch.decided {
                batch.decided = true;
                let own = self.own(count) * self.size.costs.locked / 100;
                return self.by_itself(job, own, Ask::Batch(LOADED));
            }
        }
        if place != last {
            return self.send(job, place.wrapping_add(1));
        }
        let Some(batch) = self.node(node).batch.take() else { return };
        self.forget(job);
        for commit in batch.commits {
            self.committed(node, commit);
        }
        if self.node(node).batch.is_none() {
            self.begin_batch(node);
        }
    }

    /// The request has reached the server.
    pub(crate) fn asked(&mut self, job: JobId) {
        let now = self.clock.now();
        let Job { ask, work, .. } = &self.jobs[job as usize];
        self.told.used(kind(ask), *work);
        self.processors.begin(now, job, *work);
        self.snapshot(job);
        self.next_carried();
    }

    /// Schedules the execution of the next statement again.
    pub(crate) fn next_carried(&mut self) {
        self.carried = self.carried.wrapping_add(1);
        if let Some(at) = self.processors.next() {
            self.clock.after(at.saturating_sub(self.clock.now()), Event::Carried(self.carried));
        }
    }

    /// Statements whose work is done continue: to the lock, to the log, or to the node.
    pub(crate) fn carry(&mut self) {
        let now = self.clock.now();
        while let Some(job) = self.processors.done(now) {
            let ask = self.jobs[job as usize].ask.clone();
            match ask {
                Ask::Nothing => self.forget(job),
                Ask::Own => {}
                Ask::Batch(LOCK) => {
                    if self.lock.want(now, job) {
                        self.locked(job);
                    }
                }
                Ask::Batch(place) if place == self.size.costs.round_trips - 1 => self.sync(job),
                Ask::Batch(LOADED) => {
                    self.load_batch(job);
                    self.reply(job);
                }
                Ask::Take(_) | Ask::Renew(..) | Ask::Beat => self.sync(job),
                Ask::Look(_) if self.size.design.at_once => self.sync(job),
                Ask::Look(_) | Ask::Next | Ask::Load(..) | Ask::Aside | Ask::Batch(_) => self.reply(job),
            }
        }
        self.next_carried();
    }

    fn reply(&mut self, job: JobId) {
        // The node's own work on a shared machine needs no network.
        let own = matches!(self.jobs[job as usize].ask, Ask::Batch(u64::MAX)) || self.own_part(job);
        let read = self.jobs[job as usize].rows * self.size.costs.node_row / 1_000;
        let wire = if own { 0 } else { self.wire() + read };
        self.clock.after(wire, Event::Answered(job));
    }

    fn own_part(&self, job: JobId) -> bool {
        let Job { node, ask, .. } = &self.jobs[job as usize];
        let batch = self.nodes[usize::from(*node)].batch.as_ref();
        *ask == Ask::Batch(LOADED) && batch.is_some_and(|batch| batch.job == job && batch.decided)
    }

    fn sync(&mut self, job: JobId) {
        if self.log.want(job) {
            self.begin_sync();
        }
    }

    fn begin_sync(&mut self) {
        let commits = |job: &JobId| {
            let Job { node, ask, .. } = &self.jobs[*job as usize];
            let batch = self.nodes[usize::from(*node)].batch.as_ref();
            batch.filter(|_| matches!(ask, Ask::Batch(_))).map_or(0, |batch| batch.commits.len() as u64)
        };
        let commits: u64 = self.log.syncing().iter().map(commits).sum();
        let costs = self.size.costs;
        self.clock.after(costs.sync + costs.sync_commit * commits, Event::Synced);
    }

    /// The log is on disk up to the waiters that came before: their writes are durable.
    pub(crate) fn synced(&mut self) {
        let now = self.clock.now();
        if now < self.still_until {
            self.clock.after(self.still_until - now, Event::Synced);
            return;
        }
        let (done, more) = self.log.synced();
        if more {
            self.begin_sync();
        }
        for job in done {
            match self.jobs[job as usize].ask {
                Ask::Batch(_) => self.written(job),
                _ => self.effect(job),
            }
            self.reply(job);
        }
    }

    /// The lock is acquired.
    fn locked(&mut self, job: JobId) {
        self.reply(job);
        let Job { node, life, .. } = self.jobs[job as usize];
        let it = &self.nodes[usize::from(node)];
        if it.life != life || it.frozen > self.clock.now() {
            self.stand_out(job);
        }
    }

    /// A transaction that stops while it holds the lock is aborted after a while.
    fn stand_out(&mut self, job: JobId) {
        let wait = u64::try_from(STANDSTILL.as_micros()).unwrap();
        let tried = self.jobs[job as usize].tried;
        self.clock.after(wait, Event::BreakOff(job, tried));
    }

    pub(crate) fn break_off(&mut self, job: JobId, tried: u32) {
        if self.lock.owner() != Some(job) || self.jobs[job as usize].tried != tried {
            return;
        }
        let node = self.jobs[job as usize].node;
        let now = self.clock.now();
        let it = self.node(node);
        if it.alive && it.frozen <= now {
            return;
        }
        self.told.broken_off += 1;
        self.jobs[job as usize].tried += 1;
        self.load_lock(job, false);
        if let Some(batch) = &mut self.node(node).batch
            && batch.job == job
        {
            batch.broken_off = true;
        }
        self.unlock();
    }

    fn unlock(&mut self) {
        if let Some(next) = self.lock.release(self.clock.now()) {
            self.locked(next);
        }
    }

    /// A node dies or is paused: only its work that is already at the server continues.
    pub(crate) fn abandon(&mut self, node: u16) {
        let Some(batch) = &self.node(node).batch else { return };
        let (job, asked) = (batch.job, batch.asked);
        let last = self.jobs[job as usize].ask == Ask::Batch(self.size.costs.round_trips - 1);
        if self.lock.owner() == Some(job) && !(asked && last) {
            self.stand_out(job);
        }
    }

    /// The tasks of a batch are locked, and their results are checked.
    fn load_batch(&mut self, job: JobId) {
        if self.own_part(job) {
            return;
        }
        let node = usize::from(self.jobs[job as usize].node);
        let anyway = self.size.broken == Broken::EpochCheck;
        let Some(batch) = &mut self.nodes[node].batch else { return };
        for commit in &mut batch.commits {
            commit.accepted = !commit.settles || anyway || self.tasks.stands(commit.id, commit.epoch);
        }
        self.load_lock(job, true);
    }

    fn load_lock(&mut self, job: JobId, lock: bool) {
        let node = usize::from(self.jobs[job as usize].node);
        let Some(batch) = &self.nodes[node].batch else { return };
        for commit in batch.commits.iter().filter(|commit| commit.settles && commit.accepted) {
            self.tasks.lock(commit.id, lock);
        }
    }

    /// A batch is on disk.
    fn written(&mut self, job: JobId) {
        let now: Moment = self.clock.now();
        self.load_lock(job, false);
        let node = usize::from(self.jobs[job as usize].node);
        let commits = self.nodes[node].batch.as_ref().map(|batch| batch.commits.clone()).unwrap_or_default();
        let mut scheduled = false;
        for commit in commits.iter().filter(|commit| commit.settles) {
            if !commit.accepted {
                self.laws.refused += 1;
                continue;
            }
            self.laws.settled(commit.id, commit.epoch);
            let more = commit.steps > 0;
            scheduled = true;
            let due = if more { now - now % MILLI } else { 2 * self.end };
            let steps = if more { commit.steps - 1 } else { TIMER };
            // A step is not a timer; the last step has no successor.
            self.tasks.settle(commit.id, due, steps);
        }
        self.told.commits(now, commits.len());
        if scheduled {
            let nodes = u64::from(self.size.nodes);
            let work = self.size.costs.told * nodes;
            let told = self.job(self.jobs[job as usize].node, Ask::Nothing, work);
            self.told.used(Kind::Told, work);
            self.processors.begin(now, told, work);
            self.clock.after(self.size.costs.round_trip / 2, Event::Ring);
        }
        self.unlock();
        self.next_carried();
    }
}
