//! Decisions that are committed together: each one sees the documents as the earlier ones leave them.
//!
//! Invariant: all their reads are conditions of the one commit, so either all decisions take effect or none.

use super::turn::{Promise, Turn};
use crate::model::documents::view::{Changes, Writes, puts};
use std::{collections::BTreeMap, time::Duration};
use store::{Commit, Document, Entry, Error, Key, Read, Sequence, Task, TaskId};
use tokio::sync::oneshot;

/// The most decisions in one commit: enough to share its cost, and few enough that the first does not wait long for
/// the last.
const MOST: usize = 64;
/// No decision joins a commit of this many bytes; one of [`store::COMMIT_LIMIT`] is refused.
const MOST_BYTES: usize = 4 << 20;
/// The pause after the second conflict in a row. Each further conflict doubles it, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The result of a decision's commit.
pub(crate) enum Verdict {
    /// The decision is committed.
    Committed,
    /// A read has changed: decide again, with this turn.
    Again(Promise<Batch>),
    /// The store failed.
    Failed(Error),
}

/// A decision that waits for the commit.
pub(crate) struct Member {
    pub(crate) ticket: u64,
    pub(crate) verdict: oneshot::Sender<Verdict>,
}

/// The decisions that the next commit holds.
pub(crate) struct Batch {
    /// The number of this batch.
    number: u64,
    known: BTreeMap<Key, Option<Document>>,
    writes: Writes,
    reads: BTreeMap<Key, Option<Sequence>>,
    tasks: BTreeMap<TaskId, Task>,
    journal: Vec<Entry>,
    members: Vec<Member>,
    /// True while a decision uses the documents. If still true at the next turn, that decision failed and the
    /// documents are lost.
    lent: bool,
    /// How many decisions the batch accepts now: fewer while other servers commit on the same documents.
    most: usize,
    /// Conflicts in a row.
    conflicts: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            number: 0,
            known: BTreeMap::new(),
            writes: Writes::new(),
            reads: BTreeMap::new(),
            tasks: BTreeMap::new(),
            journal: Vec::new(),
            members: Vec::new(),
            lent: false,
            most: MOST,
            conflicts: 0,
        }
    }
}

impl Batch {
    /// Returns the number of the batch.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if it has no decisions.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns true if it has one decision.
    pub(crate) fn has_one(&self) -> bool {
        self.members.len() == 1
    }

    /// Returns true if it accepts no further decision.
    pub(crate) fn is_full(&self) -> bool {
        let written: usize =
            self.writes.values().filter_map(|written| written.body.as_ref()).map(Vec::len).sum();
        let journal: usize = self.journal.iter().map(|entry| entry.detail.len()).sum();
        let tasks: usize = self.tasks.values().map(|task| task.body.len()).sum();
        let bytes = [written, journal, tasks].into_iter().fold(0, usize::saturating_add);
        self.members.len() >= self.most || bytes >= MOST_BYTES
    }

    /// Adds documents read from the store. Documents that are already present stay, because decisions depend on them.
    pub(crate) fn learn(&mut self, documents: impl IntoIterator<Item = (Key, Option<Document>)>) {
        for (key, found) in documents {
            self.known.entry(key).or_insert(found);
        }
    }

    /// Removes the documents of a batch without decisions, because they may be old.
    pub(crate) fn refresh(&mut self) {
        if self.is_empty() {
            self.known.clear();
        }
    }

    /// Moves the documents into a view. [`Batch::restore`] or [`Batch::join`] returns them.
    pub(crate) fn lend(&mut self) -> (BTreeMap<Key, Option<Document>>, Writes) {
        self.lent = true;
        (std::mem::take(&mut self.known), std::mem::take(&mut self.writes))
    }

    /// Returns true if a decision lost the documents: the batch must not be committed.
    pub(crate) fn is_broken(&self) -> bool {
        self.lent
    }

    /// Returns the documents of a decision that did not finish.
    pub(crate) fn restore(&mut self, changes: Changes) {
        self.lent = false;
        self.known = changes.known;
        self.writes = changes.earlier;
    }

    /// Adds a decision: its reads, and its writes if it is `kept`.
    pub(crate) fn join(&mut self, member: Member, changes: Changes, kept: bool, entry: Option<Entry>) {
        let Changes { known, earlier, reads, writes, tasks } = changes;
        self.lent = false;
        self.known = known;
        self.writes = earlier;
        self.reads.extend(reads);
        if kept {
            self.writes.extend(writes);
            self.tasks.extend(tasks.into_iter().map(|task| (task.id, task)));
            self.journal.extend(entry);
        }
        self.members.push(member);
    }

    /// Returns the commit and the waiting decisions. The next decision joins another batch.
    pub(crate) fn close(&mut self) -> (Commit, Vec<Member>) {
        self.number = self.number.saturating_add(1);
        self.lent = false;
        self.known.clear();
        let reads = std::mem::take(&mut self.reads);
        let commit = Commit {
            reads: reads.into_iter().map(|(key, version)| Read { key, version }).collect(),
            documents: puts(std::mem::take(&mut self.writes)),
            schedule: std::mem::take(&mut self.tasks).into_values().collect(),
            journal: std::mem::take(&mut self.journal),
            ..Commit::default()
        };
        (commit, std::mem::take(&mut self.members))
    }

    /// Increases the number of decisions after a successful commit.
    pub(crate) fn succeeded(&mut self) {
        self.conflicts = 0;
        self.most = self.most.saturating_mul(2).min(MOST);
    }

    /// Decreases the number of decisions, so that a commit comes sooner after its reads. Returns the longest pause
    /// before it.
    pub(crate) fn conflicted(&mut self, held: usize) -> Duration {
        self.most = (held / 2).max(1);
        self.conflicts = self.conflicts.saturating_add(1);
        let doublings = self.conflicts.saturating_sub(2).min(16);
        let pause = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
        if self.conflicts < 2 { Duration::ZERO } else { pause.min(LONGEST_PAUSE) }
    }

    /// Accepts one decision at a time, to find the decision that the store refuses.
    pub(crate) fn separate(&mut self) {
        self.most = 1;
    }
}

/// Makes every member decide again, in their order of arrival.
pub(crate) fn send_back(turn: &Turn<Batch>, members: Vec<Member>) {
    for Member { ticket, verdict } in members {
        // The line skips a caller that has gone.
        drop(verdict.send(Verdict::Again(turn.line().wait(ticket))));
    }
}
