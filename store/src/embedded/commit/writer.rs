//! Commits all waiting requests: checks them, writes one frame, syncs once, and answers.
//!
//! The writer is a thread, because callers must not block. If no other commit is in progress and the device is fast,
//! the caller commits itself: waking the thread and being woken by it takes as long as the sync.
//!
//! Invariant: nothing is acknowledged or visible before its frame is synced. After a failed write or sync the fate of
//! the frame is unknown; its callers get an error, and the file is closed. The next segment begins at
//! the same sequence, which voids the frame.

use crate::{
    Commit, Error, Receipt, Sequence,
    embedded::{
        commit::apply::Group,
        journal::segment::{BlankSegment, Segment},
        shared::{Component, RunMode, Shared},
    },
    sync::lock_unpoisoned,
};
use std::{
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc::UnboundedReceiver, oneshot},
    time::Instant,
};

/// A frame is closed at this many bytes or commits.
const GROUP_BYTES: usize = 1 << 20;
const GROUP_COMMITS: u32 = 4096;
/// After this many groups of one commit each, the next commit is probably also single.
const INLINE_AFTER: u32 = 4;
/// The additional size of a frame, beyond twice the counted size of a commit, in bytes.
const MARGIN: usize = 4 << 10;
/// The longest wait of a group while the index has a backlog.
const BACKPRESSURE_LIMIT: Duration = Duration::from_millis(40);

/// A commit and its waiting caller.
pub(crate) struct Request {
    pub(crate) commit: Commit,
    pub(crate) bytes: usize,
    pub(crate) reply: oneshot::Sender<Result<Receipt, Error>>,
    /// Its share of the inbox, released with the answer.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// A request to the writer.
pub(crate) enum Work {
    Commit(Box<Request>),
    /// Commit nothing until the other side of the channel is dropped.
    Pause(oneshot::Sender<()>, std::sync::mpsc::Receiver<()>),
    /// Answer earlier requests, then end.
    Stop,
}

type Answer = (Box<Request>, Result<Receipt, Error>);

/// Where commits wait.
pub(crate) struct Inbox {
    pub(crate) work: UnboundedReceiver<Work>,
    /// The number of waiting commits.
    pub(crate) waiting: Arc<AtomicUsize>,
}

impl Inbox {
    fn next(&mut self) -> Option<Work> {
        self.work.blocking_recv().inspect(|work| self.count_taken(work))
    }

    fn next_at_hand(&mut self) -> Option<Work> {
        self.work.try_recv().ok().inspect(|work| self.count_taken(work))
    }

    fn count_taken(&self, work: &Work) {
        if matches!(work, Work::Commit(_)) {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Commits requests until the writer is stopped or all senders are gone. From then on no commit is possible.
pub(crate) fn run(writer: &Mutex<Writer>, inbox: Inbox) {
    work_off(writer, inbox);
    let mut writer = lock_unpoisoned(writer);
    writer.segment = None;
    // This also ends the thread that prepares journal files.
    writer.blanks = mpsc::sync_channel(0).1;
    writer.ended = true;
}

fn work_off(writer: &Mutex<Writer>, mut inbox: Inbox) {
    let mut next = inbox.next();
    while let Some(work) = next.take() {
        // A panic during a commit ends the writer, as a panic of its own thread would.
        let Ok(mut writer) = writer.lock() else { return };
        match work {
            Work::Stop => return,
            Work::Pause(paused, until) => {
                let _ = paused.send(());
                // An error means that the pause has ended.
                let _ = until.recv();
            }
            Work::Commit(request) => next = writer.group(request, &mut inbox),
        }
        drop(writer);
        if next.is_none() {
            next = inbox.next();
        }
    }
}

/// Commits `commit` on the calling thread, if no other commit is in progress and it is probably fast.
pub(crate) fn commit_inline(
    writer: &Mutex<Writer>,
    waiting: &AtomicUsize,
    commit: &Commit,
    bytes: usize,
) -> Option<Result<Receipt, Error>> {
    let mut writer = match writer.try_lock() {
        Ok(writer) => writer,
        Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return None,
    };
    let is_alone = waiting.load(Ordering::Acquire) == 0;
    (is_alone && writer.can_commit_inline(bytes)).then(|| writer.commit_one(commit))
}

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) blanks: Receiver<BlankSegment>,
    /// `None` while the fate of the last write is unknown.
    pub(crate) segment: Option<Segment>,
    pace: Pace,
    /// True after the writer was stopped.
    ended: bool,
}

/// The recent rate of commits, and the duration of syncs.
#[derive(Default)]
struct Pace {
    /// The number of consecutive groups of one commit each.
    single_commits: u32,
    sync: Duration,
}

/// Returns how long a group waits, given the bytes that wait for the index and the limit. The wait grows as the limit
/// approaches, so that callers are slowed down instead of blocked.
fn backpressure(waiting: usize, most: usize) -> Duration {
    let from = most / 4 * 3;
    let (over, room) = (waiting.saturating_sub(from) >> 10, most.saturating_sub(from) >> 10);
    let parts = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    BACKPRESSURE_LIMIT.saturating_mul(parts(over.min(room))) / parts(room).max(1)
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, blanks: Receiver<BlankSegment>, segment: Segment) -> Self {
        Self { shared, blanks, segment: Some(segment), pace: Pace::default(), ended: false }
    }

    /// Returns true if a commit of this size needs only a sync, which is probably short.
    fn can_commit_inline(&self, bytes: usize) -> bool {
        let most = bytes.saturating_mul(2).saturating_add(MARGIN);
        let has_room = |segment: &Segment| segment.has_room(most);
        self.pace.single_commits >= INLINE_AFTER
            && self.pace.sync <= self.shared.options.quick_sync
            && !self.ended
            && self.segment.as_ref().is_some_and(has_room)
            && self.shared.run_mode() == RunMode::Run
            && self.shared.memtable().bytes() <= self.shared.options.backlog_bytes
            && self.shared.problem(Component::Index).is_none()
    }

    fn commit_one(&mut self, commit: &Commit) -> Result<Receipt, Error> {
        let mut group = self.new_group();
        let answer = self.check(&mut group, commit);
        if !group.builder.is_empty() {
            self.write(group)?;
        }
        answer
    }

    fn new_group(&self) -> Group {
        Group::new(Sequence(self.shared.memtable().last().0.saturating_add(1)))
    }

    /// Commits `request` together with all commits behind it. Returns a request that is not a commit.
    fn group(&mut self, request: Box<Request>, inbox: &mut Inbox) -> Option<Work> {
        if let Err(error) = self.ready() {
            let _ = request.reply.send(Err(error));
            return None;
        }
        let mut group = self.new_group();
        let mut answers: Vec<Answer> = Vec::new();
        let mut bytes = 0_usize;
        let mut waiting = Some(Work::Commit(request));
        while let Some(Work::Commit(request)) = waiting {
            bytes = bytes.saturating_add(request.bytes);
            let answer = self.check(&mut group, &request.commit);
            answers.push((request, answer));
            let full = bytes >= GROUP_BYTES || group.builder.commits() >= GROUP_COMMITS;
            waiting = if full { None } else { inbox.next_at_hand() };
        }
        self.pace.single_commits =
            if answers.len() == 1 { self.pace.single_commits.saturating_add(1) } else { 0 };
        let written = if group.builder.is_empty() { Ok(()) } else { self.write(group) };
        // Refusals wait for the sync too: they may be caused by a commit of this group, which must be visible to a
        // caller that reads after the refusal.
        for (request, answer) in answers {
            let answer = match (&written, answer) {
                (Ok(()), answer) | (Err(_), answer @ Err(_)) => answer,
                (Err(error), Ok(_)) => Err(error.clone()),
            };
            let _ = request.reply.send(answer);
        }
        waiting
    }

    fn check(&self, group: &mut Group, commit: &Commit) -> Result<Receipt, Error> {
        let begins = commit.record.as_ref().is_some_and(|write| write.expected.is_none());
        self.shared.space.admit(begins)?;
        group.add(commit, &*self.shared, &self.shared.tasks)
    }

    /// Waits until there is a segment to write to and room in the backlog.
    fn ready(&mut self) -> Result<(), Error> {
        loop {
            if let Some(why) = self.shared.problem(Component::Index) {
                return Err(Error::Unavailable { why });
            }
            if self.shared.run_mode() == RunMode::Stop {
                return Err(Error::Unavailable { why: "the store is closing".into() });
            }
            let seen = self.shared.applied.count();
            let (waiting, most) = (self.shared.memtable().bytes(), self.shared.options.backlog_bytes);
            if waiting <= most {
                let slowed = backpressure(waiting, most);
                if !slowed.is_zero() {
                    self.shared.applied.wait(seen, slowed);
                }
                break;
            }
            self.shared.published.notify();
            self.shared.applied.wait(seen, Duration::from_millis(100));
        }
        if self.segment.is_none() {
            self.begin_segment()?;
            self.shared.resolve(Component::Journal);
        }
        Ok(())
    }

    fn begin_segment(&mut self) -> Result<(), Error> {
        let blank = self.blank()?;
        let first = Sequence(self.shared.memtable().last().0.saturating_add(1));
        let segment = Segment::begin(blank, &self.shared.dir, first, self.shared.opens).map_err(|error| {
            let why = format!("no journal file can be begun in {}: {error}", self.shared.dir.display());
            self.shared.report(Component::Journal, why.clone());
            Error::Unavailable { why }
        })?;
        self.segment = Some(segment);
        Ok(())
    }

    fn blank(&self) -> Result<BlankSegment, Error> {
        loop {
            match self.blanks.recv_timeout(Duration::from_millis(5)) {
                Ok(blank) => return Ok(blank),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(error) = self.shared.space.segment_error() {
                        return Err(error);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Unavailable { why: "no thread prepares journal files".into() });
                }
            }
        }
    }

    /// Writes and syncs the frame, then shows it to readers.
    fn write(&mut self, group: Group) -> Result<(), Error> {
        let Group { builder, changed, changes, claimed, .. } = group;
        let (frame, bytes) = builder.finish();
        let written = self.append(&bytes);
        let mut tasks = lock_unpoisoned(&self.shared.tasks);
        if let Err(error) = written {
            claimed.into_iter().for_each(|task| tasks.unclaim(task));
            return Err(error);
        }
        let counters = &self.shared.counters;
        counters.commits.fetch_add(u64::from(frame.header.commits), Ordering::Relaxed);
        lock_unpoisoned(&counters.tallies).groups.record(f64::from(frame.header.commits));
        self.shared.memtable_mut().publish(frame, changed);
        changes.into_iter().for_each(|change| tasks.apply(change));
        drop(tasks);
        self.shared.published.notify();
        Ok(())
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        let has_room = |segment: &Segment| segment.is_empty() || segment.has_room(frame.len());
        if !self.segment.as_ref().is_some_and(has_room) {
            self.begin_segment()?;
        }
        let Some(segment) = self.segment.as_mut() else {
            return Err(Error::Unavailable { why: "there is no journal file to write to".into() });
        };
        let began = Instant::now();
        let synced = segment
            .append(frame)
            .and_then(|()| self.shared.options.faults.sync())
            .and_then(|()| segment.sync())
            .inspect(|()| self.shared.options.faults.after_sync.call());
        if let Err(error) = synced {
            self.segment = None;
            let why = format!("writing the journal in {} failed: {error}", self.shared.dir.display());
            self.shared.report(Component::Journal, why.clone());
            return Err(Error::Unavailable {
                why: format!("{why}; whether the commit is durable is not known"),
            });
        }
        // The mean of about the last eight, so that one slow sync has no effect.
        let took = began.elapsed();
        self.pace.sync = (self.pace.sync.saturating_mul(7).saturating_add(took)) / 8;
        let bytes = frame.len() as u64;
        lock_unpoisoned(&self.shared.counters.tallies).seconds.record(took.as_secs_f64());
        self.shared.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.shared.counters.written.fetch_add(bytes, Ordering::Relaxed);
        self.shared.counters.since_checkpoint.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_slowed_down_before_they_are_stopped() {
        let most = 64 << 20;
        let waits: Vec<_> =
            [0, 47, 48, 52, 56, 60, 64, 99].map(|mib| backpressure(mib << 20, most).as_millis()).into();
        assert_eq!(waits, [0, 0, 0, 10, 20, 30, 40, 40]);
        assert_eq!(backpressure(1, 0), Duration::ZERO, "without room there is no gradual delay");
    }
}
