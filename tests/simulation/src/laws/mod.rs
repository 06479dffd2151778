//! Invariants that always hold: checked after every commit, every external call, and at the end.
//!
//! The laws read stored records and calls, never the engine's own state: they apply to any engine.

mod endings;
mod transitions;

use crate::{cast::Pool, clock, world::Deed};
use engine::Call;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, MutexGuard},
};
use store::{Commit, Entry, Epoch, ExecutionId, Lease, Memory, Receipt, Record, Store, TaskId};
use tokio::time::Instant;
use transitions::Turn;

#[derive(Debug, Default)]
struct Book {
    history: Vec<String>,
    broken: Vec<String>,
    /// The epoch of each task's latest lease.
    leases: BTreeMap<TaskId, Epoch>,
    /// Executions that users closed by force: they leave objects and list them.
    forced: BTreeSet<ExecutionId>,
    events: u64,
}

/// The laws, and the history that they check.
#[derive(Debug)]
pub struct Laws {
    book: Mutex<Book>,
    began: Instant,
}

impl Laws {
    /// An empty history.
    #[must_use]
    pub fn new(began: Instant) -> Self {
        Self { book: Mutex::default(), began }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// Adds a line to the history.
    pub fn note(&self, line: fmt::Arguments<'_>) {
        let at = clock::truth(self.began).0 - clock::BEGIN;
        let mut book = self.book();
        book.events += 1;
        book.history.push(format!("{:>9}.{:03} {line}", at / 1_000, at % 1_000));
    }

    /// Reports a broken law.
    pub fn broken(&self, what: String) {
        self.note(format_args!("BROKEN: {what}"));
        self.book().broken.push(what);
    }

    fn hold(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken(what());
        }
    }

    /// Returns the history, the broken laws, and the number of events.
    #[must_use]
    pub fn verdict(&self) -> (Vec<String>, Vec<String>, u64) {
        let book = self.book();
        (book.history.clone(), book.broken.clone(), book.events)
    }

    /// Returns true if a law is broken.
    #[must_use]
    pub fn any_broken(&self) -> bool {
        !self.book().broken.is_empty()
    }

    /// Returns true if a user closed this execution by force.
    pub fn was_forced(&self, id: ExecutionId) -> bool {
        self.book().forced.contains(&id)
    }

    /// A task was leased.
    pub fn leased(&self, lease: &Lease) {
        let before = self.book().leases.insert(lease.task.id, lease.epoch);
        self.hold(before.is_none_or(|before| before < lease.epoch), || {
            format!("epoch {} of {} was handed out after {before:?}", lease.epoch.0, lease.task.id)
        });
    }

    /// A commit was made by `node`: `before` is the record that it replaced.
    pub fn committed(&self, node: &str, before: Option<&Record>, commit: &Commit, receipt: &Receipt) {
        for entry in &commit.journal {
            let detail = String::from_utf8_lossy(&entry.detail);
            let (id, at) = (short(entry.execution), entry.at.0.saturating_sub(clock::BEGIN));
            let (event, from, to) = (&entry.event, &entry.from, &entry.to);
            self.note(format_args!("{node}: {id} {event} {from} -> {to} at {at} {detail}"));
        }
        if let Some(settle) = &commit.settle {
            let held = self.book().leases.get(&settle.task).copied();
            self.hold(held == Some(settle.epoch), || {
                format!(
                    "a result under epoch {} of {} was taken, and it is held under {held:?}",
                    settle.epoch.0, settle.task
                )
            });
        }
        self.tokens(commit);
        let Some(write) = &commit.record else { return };
        let after = &write.record;
        if after.reason.as_deref() == Some("terminated") {
            self.book().forced.insert(after.id);
        }
        let was = before.map(|before| before.revision.0);
        self.hold(receipt.revision.map(|now| now.0) == Some(was.map_or(1, |was| was + 1)), || {
            format!("{} went from revision {was:?} to {:?}", short(after.id), receipt.revision)
        });
        self.hold(!commit.journal.is_empty(), || format!("{} changed without a word", short(after.id)));
        let Some(before) = before else { return };
        let (old, new) = (body(before), body(after));
        self.hold(before.open, || format!("{} changed after its end", short(after.id)));
        let entries: Vec<&Entry> =
            commit.journal.iter().filter(|entry| entry.execution == after.id).collect();
        let Some(first) = entries.first() else { return };
        let detail: Value = serde_json::from_slice(&first.detail).unwrap_or_default();
        let ways: Vec<Value> =
            entries.iter().map(|entry| serde_json::from_slice(&entry.detail).unwrap_or_default()).collect();
        let turn = Turn {
            id: short(after.id),
            before,
            after,
            old: &old,
            new: &new,
            told: &detail["event"],
            ways: &ways,
        };
        self.trail(&turn);
        self.tickets(&turn);
        self.deadlines(&turn, &entries);
        self.signals(&turn);
        self.votes(&turn, commit);
        self.pivots(&turn);
    }

    /// The tokens of the pool are held or free, and their sum is the pool's size.
    fn tokens(&self, commit: &Commit) {
        for put in commit.documents.iter().filter(|put| put.key.collection == "pools") {
            let pool: Pool = serde_json::from_slice(put.body.as_deref().unwrap_or_default()).unwrap();
            let held: u64 = pool.held.values().sum();
            self.hold(held + pool.free == pool.total, || format!("the pool holds {pool:?}"));
        }
    }

    /// An external call: an action with an undo is on the trail before it begins.
    pub async fn called(&self, truth: &Memory, deed: Deed, name: &str, call: &Call) {
        self.note(format_args!("call: {deed:?} {name} as {}", call.describe()));
        let Some(record) = truth.load(call.execution).await.unwrap() else {
            return self.broken(format!("{name} is called for an execution that does not exist"));
        };
        let body = body(&record);
        let marks = list(&body, "trail").iter();
        let marked = marks
            .filter(|mark| number(mark, "entered") == u64::from(call.states_entered))
            .any(|mark| number(mark, "slot") == u64::from(call.slot));
        let undoable = deed == Deed::Make && call.state != "Clearing";
        self.hold(marked || !undoable, || format!("{}: {name} is made without a mark", short(record.id)));
        let bare = matches!(deed, Deed::Wreck | Deed::Pay);
        self.hold(!bare || !body["pivot"].is_null(), || {
            format!("{}: {deed:?} {name} before the pivot", short(record.id))
        });
    }
}

fn body(record: &Record) -> Value {
    serde_json::from_slice(&record.body).unwrap()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// Returns the end of an id, which distinguishes the few executions of a simulation.
#[must_use]
pub fn short(id: ExecutionId) -> String {
    let id = id.to_string();
    id[id.len() - 7..].to_owned()
}

/// Returns true if another execution started it.
#[must_use]
pub fn has_parent(record: &Record) -> bool {
    !body(record)["parent"].is_null()
}
