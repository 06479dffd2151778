//! What must hold, whatever happens: looked at after every commit, every call of the world, and at the end.
//!
//! The laws read what is stored and what was called, never what the engine thinks: they would hold of any engine.

use crate::{
    cast::{Chore, Demolition, Errand, Pool, soonest},
    clock,
    world::Deed,
};
use engine::{Call, Execution, Workflow};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, MutexGuard},
};
use store::{Commit, Entry, Epoch, ExecutionId, Lease, Memory, Receipt, Record, Store, TaskId, Timestamp};
use tokio::time::Instant;

/// How many seats a question has.
const QUORUM: usize = 2;

#[derive(Debug, Default)]
struct Book {
    history: Vec<String>,
    broken: Vec<String>,
    /// The epoch under which each task was last handed out.
    leases: BTreeMap<TaskId, Epoch>,
    /// What people closed by force: it leaves things behind, and lists them.
    forced: BTreeSet<ExecutionId>,
    events: u64,
}

/// The laws, and the history that they are about.
#[derive(Debug)]
pub struct Laws {
    book: Mutex<Book>,
    began: Instant,
}

impl Laws {
    /// Nothing has happened.
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

    /// Says that a law is broken.
    pub fn broken(&self, what: String) {
        self.note(format_args!("BROKEN: {what}"));
        self.book().broken.push(what);
    }

    fn hold(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken(what());
        }
    }

    /// The history, what is broken, and how many events there were.
    #[must_use]
    pub fn verdict(&self) -> (Vec<String>, Vec<String>, u64) {
        let book = self.book();
        (book.history.clone(), book.broken.clone(), book.events)
    }

    /// Whether anything is broken.
    #[must_use]
    pub fn any_broken(&self) -> bool {
        !self.book().broken.is_empty()
    }

    /// Whether people closed this execution by force.
    pub fn was_forced(&self, id: ExecutionId) -> bool {
        self.book().forced.contains(&id)
    }

    /// A task was handed out.
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

    /// The tokens of the pool are with somebody or with nobody, and never more than there are.
    fn tokens(&self, commit: &Commit) {
        for put in commit.documents.iter().filter(|put| put.key.collection == "pools") {
            let pool: Pool = serde_json::from_slice(put.body.as_deref().unwrap_or_default()).unwrap();
            let held: u64 = pool.held.values().sum();
            self.hold(held + pool.free == pool.total, || format!("the pool holds {pool:?}"));
        }
    }

    /// The trail only grows, its marks only go forward, and what came last is undone first.
    fn trail(&self, turn: &Turn<'_>) {
        let (old, new) = (list(turn.old, "trail"), list(turn.new, "trail"));
        self.hold(new.len() >= old.len(), || format!("{}: the trail has become shorter", turn.id));
        for (place, mark) in new.iter().enumerate() {
            let before = old.get(place);
            let was = before.map_or("", |before| text(before, "fate"));
            let is = text(mark, "fate");
            let rank = |fate: &str| match fate {
                "begun" => 0,
                "done" | "failed" => 1,
                _ => 2,
            };
            self.hold(before.is_none() || rank(was) <= rank(is), || {
                format!("{}: a mark went from {was} to {is}", turn.id)
            });
            if rank(is) == 2 && rank(was) < 2 {
                let later = new.iter().find(|other| {
                    number(other, "entered") > number(mark, "entered") && rank(text(other, "fate")) < 2
                });
                self.hold(later.is_none(), || {
                    format!(
                        "{}: {} of {} is undone before {} of {}",
                        turn.id,
                        text(mark, "action"),
                        text(mark, "state"),
                        text(later.unwrap(), "action"),
                        text(later.unwrap(), "state")
                    )
                });
            }
        }
    }

    /// A result is taken by the visit that asked for it, and once.
    fn tickets(&self, turn: &Turn<'_>) {
        let kinds = ["settled", "probed", "held"];
        let Some(told) = kinds.iter().find_map(|kind| turn.told.get(*kind)) else { return };
        let (visit, slot) = (number(&told["ticket"], "visit"), number(&told["ticket"], "slot"));
        self.hold(visit == number(turn.old, "visit"), || {
            format!("{}: a result of visit {visit} was taken in visit {}", turn.id, number(turn.old, "visit"))
        });
        let before = list(turn.old, "slots").get(usize::try_from(slot).unwrap());
        let open = before.is_some_and(|slot| slot["begun"] == true && slot["settled"].is_null());
        self.hold(open, || format!("{}: slot {slot} was settled twice, or never begun", turn.id));
        let (was, is) = (list(&turn.old["data"], "noted").len(), list(&turn.new["data"], "noted"));
        for made in is.iter().skip(was) {
            let right = text(made, "state") == turn.before.state
                && number(made, "entered") == number(turn.old, "entered");
            self.hold(right, || format!("{}: {made} was noted in {}", turn.id, turn.before.state));
        }
    }

    /// A deadline passes once, for the visit that set it, and not before its time.
    fn deadlines(&self, turn: &Turn<'_>, entries: &[&Entry]) {
        if let Some(told) = turn.told.get("deadline_passed") {
            let (visit, current) = (number(told, "visit"), number(turn.old, "visit"));
            self.hold(visit == current, || {
                format!("{}: the deadline of visit {visit} fired in visit {current}", turn.id)
            });
        }
        // Whatever follows from it may follow later, if it is paused; that it has passed is said once, at the right time.
        let passed = turn.new["overdue"] == true
            || (turn.old["ballot"]["ruling"].is_null() && turn.new["ballot"]["ruling"] == "expired")
            || turn.ways.first().is_some_and(|way| !way["by"].is_null());
        let Some(entry) = entries.first().filter(|_| passed && turn.told.get("deadline_passed").is_some())
        else {
            return;
        };
        let since = Timestamp(number(turn.old, "since"));
        let within = soonest(&turn.before.workflow, &turn.before.state, &turn.old["data"]);
        self.hold(within.is_none_or(|within| entry.at >= since.after(within)), || {
            format!("{}: {} was over after {:?}", turn.id, turn.before.state, entry.at.since(since))
        });
    }

    /// A signal is kept until a wait takes it.
    fn signals(&self, turn: &Turn<'_>) {
        let kept = |body: &Value| list(body, "signals").iter().any(|signal| signal == "go");
        let told = turn.told.get("signalled").is_some();
        let taken = turn.ways.iter().any(|way| text(way, "by") == "signal go");
        let over = !turn.after.open;
        self.hold(!(told || kept(turn.old)) || taken || kept(turn.new) || over, || {
            format!("{}: a signal was lost in {}", turn.id, turn.before.state)
        });
        let expired = turn.before.state != turn.after.state
            && text(turn.ways.first().unwrap_or(&Value::Null), "by") == "deadline";
        let listens = soonest(&turn.before.workflow, &turn.before.state, &turn.old["data"])
            == Some(crate::cast::ANSWER_WITHIN);
        self.hold(!(expired && listens && kept(turn.old)), || {
            format!("{}: it gave up a wait though the signal was there", turn.id)
        });
    }

    /// What people decide: each on the plan that stands, none on their own request, enough of them, each once.
    fn votes(&self, turn: &Turn<'_>, commit: &Commit) {
        let vote = turn.told.get("voted");
        let closed = || commit.documents.iter().find(|put| put.key.collection == "approvals-closed");
        let case: Value =
            closed().and_then(|put| serde_json::from_slice(put.body.as_deref()?).ok()).unwrap_or_default();
        let ballot = if turn.new["ballot"].is_null() { &case } else { &turn.new["ballot"] };
        if let Some(vote) = vote {
            self.hold(vote["digest"] == ballot["digest"], || {
                format!("{}: a vote for {} counts for {}", turn.id, vote["digest"], ballot["digest"])
            });
        }
        if !turn.ways.iter().any(|way| text(way, "by") == "approved") {
            return;
        }
        let yes = list(&case, "votes").iter().filter(|vote| vote["verdict"] == "approve");
        let people: BTreeSet<&str> = yes
            .filter(|vote| list(&vote["person"], "roles").iter().any(|role| role == "boss"))
            .map(|vote| text(&vote["person"], "name"))
            .filter(|name| *name != turn.before.requested_by)
            .collect();
        self.hold(people.len() >= QUORUM, || format!("{}: approved by {people:?} alone", turn.id));
    }

    /// Past the point of no return there is no way back, and nothing is destroyed that people have not agreed to.
    fn pivots(&self, turn: &Turn<'_>) {
        let passed = |body: &Value| !body["pivot"].is_null();
        if passed(turn.old) {
            let phase = &turn.new["phase"];
            let ending = phase["finished"]["outcome"].as_str();
            let back = !phase["compensating"].is_null()
                || matches!(ending, Some("rolled_back" | "cancelled" | "refused" | "expired"));
            self.hold(!back, || format!("{}: it turned back past its pivot: {phase}", turn.id));
            self.hold(passed(turn.new), || format!("{}: it forgot its pivot", turn.id));
        }
        if turn.after.workflow == Demolition::NAME && passed(turn.new) && !passed(turn.old) {
            let execution: Execution<Demolition> = serde_json::from_slice(&turn.after.body).unwrap();
            let plan = execution.digest();
            let agreed = execution.authorisation.as_ref();
            self.hold(agreed.is_some_and(|given| given.digest == plan && given.by.is_people()), || {
                format!("{}: it destroys by {plan}, and {agreed:?} was agreed to", turn.id)
            });
        }
    }

    /// A call reaches for the world: what has an undo is on the trail before it begins.
    pub async fn called(&self, truth: &Memory, deed: Deed, name: &str, call: &Call) {
        self.note(format_args!("call: {deed:?} {name} as {}", call.describe()));
        let Some(record) = truth.load(call.execution).await.unwrap() else {
            return self.broken(format!("{name} is called for an execution that there is not"));
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

    /// How an execution ended, against what is left of it.
    pub fn ended(&self, record: &Record, things: &[String], tokens: u64) {
        let (id, body) = (short(record.id), body(record));
        let finished = &body["phase"]["finished"];
        let outcome = text(finished, "outcome");
        let (wanted, asked) = wanted(record, &body);
        let has: BTreeSet<&str> = things.iter().map(String::as_str).collect();
        match outcome {
            "completed" => {
                let wants: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
                self.hold(has == wants, || format!("{id} completed and left {has:?}, not {wants:?}"));
                self.hold(tokens == asked, || format!("{id} completed with {tokens} tokens, not {asked}"));
            }
            "terminated" => {
                // The leak report names whatever may be left.
                let leaks: BTreeSet<&str> = list(finished, "leaks")
                    .iter()
                    .filter_map(|leak| leak["arguments"]["name"].as_str())
                    .collect();
                let past = !body["pivot"].is_null();
                let unlisted: Vec<_> = has.iter().filter(|thing| !leaks.contains(*thing)).collect();
                self.hold(past || unlisted.is_empty(), || {
                    format!("{id} was terminated and leaves {unlisted:?} unlisted")
                });
            }
            _ => {
                let clean = body["pivot"].is_null();
                self.hold(!clean || has.is_empty(), || format!("{id} ended {outcome} and left {has:?}"));
                self.hold(!clean || tokens == 0, || format!("{id} ended {outcome} with {tokens} tokens"));
            }
        }
    }
}

/// What a completed execution leaves: its things, and its tokens.
fn wanted(record: &Record, body: &Value) -> (Vec<String>, u64) {
    use crate::cast::Spec;
    match record.workflow.as_str() {
        Errand::NAME => {
            let errand: Errand = serde_json::from_value(body["data"].clone()).unwrap();
            let mut things = Vec::new();
            let mut tokens = 0;
            for step in errand.steps {
                match step {
                    Spec::Make(names) => things.extend(names),
                    Spec::Reserve(count) => tokens += count,
                    Spec::Ask | Spec::Listen | Spec::Sleep | Spec::Send(_) | Spec::Pay(_) => {}
                }
            }
            (things, tokens)
        }
        Chore::NAME => {
            let chore: Chore = serde_json::from_value(body["data"].clone()).unwrap();
            (vec![format!("{}-polish", chore.name), chore.name], 0)
        }
        _ => {
            let house: Demolition = serde_json::from_value(body["data"].clone()).unwrap();
            (vec![house.thing("fence"), house.thing("lawn")], 0)
        }
    }
}

/// One change of one execution.
struct Turn<'a> {
    id: String,
    before: &'a Record,
    after: &'a Record,
    old: &'a Value,
    new: &'a Value,
    told: &'a Value,
    ways: &'a [Value],
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

/// The end of an id, which tells the few of a simulation apart.
#[must_use]
pub fn short(id: ExecutionId) -> String {
    let id = id.to_string();
    id[id.len() - 7..].to_owned()
}

/// Whether another execution started it.
#[must_use]
pub fn has_parent(record: &Record) -> bool {
    !body(record)["parent"].is_null()
}
