//! Moves open executions in every condition from the embedded store into a database, and back: the campaign behind
//! `tests/it/postgres/under_way.rs` and the `moving` bench. Unmoved executions are the reference.

use crate::campaigns::errands::{Errand, Kind, Yard};
use engine::{Attribution, Clock as _, Engine, HOUR, ManualClock, Person, Request, SECOND, Verdict};
use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Embedded, ExecutionId, Filter, Options, Record, Store, TaskId, Timestamp,
    postgres::{Postgres, PostgresOptions},
    transfer::{self, Source},
};

/// Concurrent work.
const WORKERS: usize = 16;
/// Concurrent starts.
const AT_ONCE: usize = 64;
const BEGUN: Timestamp = Timestamp(1_795_000_000_000);

/// The costs of a move.
#[derive(Debug, Default)]
pub struct Moved {
    /// Executions by condition when they were exported.
    pub conditions: BTreeMap<Kind, usize>,
    /// Tasks that a worker had leased and not completed.
    pub in_flight: usize,
    /// Executions, including children.
    pub executions: usize,
    /// The size of the export.
    pub bytes: u64,
    /// The time to write the export.
    pub export: Duration,
    /// The time to read it into the database.
    pub import: Duration,
    /// The time from the last commit before the move to the first one after it.
    pub down: Duration,
    /// The time until all had ended: unmoved, moved, and moved back.
    pub resume: [Duration; 3],
    /// Executions by their end.
    pub ends: BTreeMap<String, usize>,
    /// External effects, each with its own key.
    pub effects: usize,
    /// Differences from the reference, and repeated effects.
    pub wrong: Vec<String>,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} open executions, {} tasks leased by a worker", self.executions, self.in_flight)?;
        for (kind, count) in &self.conditions {
            writeln!(f, "  {count:>6} {kind:?}")?;
        }
        let rate = |took: Duration| self.executions as f64 / took.as_secs_f64();
        writeln!(f, "export {:.2?} ({:.1} MiB)", self.export, self.bytes as f64 / f64::from(1 << 20))?;
        writeln!(f, "import {:.2?} ({:.0}/s)", self.import, rate(self.import))?;
        writeln!(f, "down   {:.2?}, from closing the one to the first commit in the other", self.down)?;
        let [stayed, moved, back] = self.resume;
        writeln!(f, "to their ends: stayed {stayed:.1?}, moved {moved:.1?}, moved back half way {back:.1?}")?;
        for (end, count) in &self.ends {
            writeln!(f, "  {count:>6} {end}")?;
        }
        writeln!(f, "  {:>6} effects; repeated ones are listed below", self.effects)?;
        self.wrong.iter().try_for_each(|wrong| writeln!(f, "  WRONG: {wrong}"))
    }
}

/// One of the twins: a store, its engine and its external system.
struct Twin {
    store: Arc<dyn Store>,
    engine: Engine<Yard>,
    clock: Arc<ManualClock>,
    yard: Arc<Yard>,
}

impl Twin {
    fn on(store: Arc<dyn Store>, now: Timestamp, yard: Yard) -> Self {
        let (clock, yard) = (Arc::new(ManualClock::starting_at(now)), Arc::new(yard));
        let engine = Engine::new(store.clone(), clock.clone(), yard.clone());
        let engine = engine.with_workflow::<Errand>().expect("the workflow is valid");
        Self { store, engine, clock, yard }
    }

    async fn begin(&self, count: usize) {
        for chunk in (0..count).collect::<Vec<_>>().chunks(AT_ONCE) {
            let starting = chunk.iter().map(|n| {
                let engine = self.engine.clone();
                let errand = Errand::numbered(*n);
                let by = Person::new("requester", Vec::<String>::new());
                tokio::spawn(async move { engine.start(errand, Request::by(&by)).await })
            });
            for started in starting.collect::<Vec<_>>() {
                started.await.expect("no panic").expect("it starts");
            }
        }
    }

    /// Works until nothing is due.
    async fn work(&self) {
        loop {
            let working = (0..WORKERS).map(|_| {
                let engine = self.engine.clone();
                tokio::spawn(async move { engine.run_until_idle().await.expect("it works") })
            });
            let mut worked = 0;
            for one in working.collect::<Vec<_>>() {
                worked += one.await.expect("no panic");
            }
            if worked == 0 {
                return;
            }
        }
    }

    /// Works and advances the clock until nothing more happens by itself within `span`.
    async fn settle(&self, span: Duration) {
        let end = self.clock.now().after(span);
        loop {
            self.work().await;
            match self.store.next_due().await.expect("it answers") {
                Some(next) if next <= end => self.clock.advance_to(next),
                _ => return,
            }
        }
    }

    async fn records(&self) -> Vec<Record> {
        self.engine.list(&Filter::default(), None, 1_000_000).await.expect("they are listed").items
    }

    /// A worker leases the tasks of each first step and dies after half of the work.
    async fn lose_a_worker(&self) {
        let leases = self.store.lease("dying", self.clock.now(), SECOND, 1_000_000).await.expect("leases");
        for (n, lease) in leases.iter().enumerate() {
            let (record, shown) = self.engine.execution(lease.task.id.execution).await.expect("it is shown");
            assert_eq!(record.state, "Trying");
            if n % 2 == 0 {
                self.yard.effect(format!("{}/Trying/{}/0", record.id, shown.body["entered"]));
            }
        }
        assert!(!leases.is_empty(), "nothing was in flight");
    }

    /// Sends votes and signals to each execution that waits for one.
    async fn answer(&self) {
        self.yard.open();
        let bosses = [Person::new("ada", ["boss"]), Person::new("bob", ["boss"])];
        let cases = self.engine.approvals(None, 1_000_000).await.expect("they are listed").items;
        for case in cases {
            let refused = case.subject.ends_with("30");
            let verdict = if refused { Verdict::Refuse } else { Verdict::Approve };
            for boss in bosses.iter().take(if refused { 1 } else { 2 }) {
                let voted = self.engine.vote(case.execution, boss, verdict, &case.digest, "as agreed").await;
                voted.expect("a vote is taken");
            }
        }
        for record in self.records().await {
            if record.phase == "parked" {
                let order = Attribution { by: "olga".into(), reason: "mended".into() };
                let retried = self.engine.deliver(record.id, engine::Event::RetryRequested(order)).await;
                retried.expect("it is tried again");
            } else if record.state == "Listening" {
                self.engine.signal(record.id, "go").await.expect("the signal is sent");
            }
        }
        self.work().await;
    }

    /// Returns the end, the states and the external effects of each execution, by name, as ids may differ.
    async fn account(&self) -> Account {
        let mut account = Account::default();
        let mut names: BTreeMap<ExecutionId, String> = BTreeMap::new();
        for record in self.records().await {
            names.insert(record.id, record.subject.clone());
            let end = (record.state, record.phase, record.reason.unwrap_or_default());
            account.ends.insert(record.subject.clone(), end);
            let entries = self.engine.journal(record.id).await.expect("it has a history");
            let line = |entry: store::Entry| (entry.event, entry.from, entry.to, entry.actor);
            account.histories.insert(record.subject, entries.into_iter().map(line).collect());
        }
        for (key, count) in self.yard.effects() {
            let (id, rest) = key.split_once('/').unwrap_or((&key, ""));
            let name = id.parse().ok().and_then(|id| names.get(&id)).map_or(id, String::as_str);
            account.effects.insert(format!("{name}/{rest}"), count);
        }
        account
    }
}

/// The comparable part of a twin.
#[derive(Debug, Default, PartialEq)]
struct Account {
    ends: BTreeMap<String, (String, String, String)>,
    histories: BTreeMap<String, Vec<(String, String, String, String)>>,
    effects: BTreeMap<String, u32>,
}

impl Account {
    /// Returns the differences from the unmoved twin, for the first execution that differs.
    fn differences(&self, stayed: &Self, name: &str) -> Vec<String> {
        let ends = differing(&self.ends, &stayed.ends);
        let histories = differing(&self.histories, &stayed.histories);
        let effects = differing(&self.effects, &stayed.effects);
        let all = ends.into_iter().chain(histories).chain(effects);
        all.map(|what| format!("{name}: {what}")).take(12).collect()
    }

    fn twice(&self, name: &str) -> Vec<String> {
        let twice = self.effects.iter().filter(|(_, count)| **count != 1);
        twice.map(|(key, count)| format!("{name}: {key} was done {count} times")).take(12).collect()
    }
}

fn differing<T: fmt::Debug + PartialEq>(
    here: &BTreeMap<String, T>,
    there: &BTreeMap<String, T>,
) -> Vec<String> {
    let keys = here.keys().chain(there.keys().filter(|key| !here.contains_key(*key)));
    let differ = keys.filter(|key| here.get(*key) != there.get(*key));
    differ.map(|key| format!("{key}: {:?}, stayed: {:?}", here.get(key), there.get(key))).collect()
}

/// Groups the executions by condition, as their records and the yard show it.
async fn conditions(twin: &Twin) -> BTreeMap<Kind, usize> {
    let mut found = BTreeMap::new();
    let effects = twin.yard.effects();
    let done = |id: ExecutionId, undo: bool| {
        let of = effects.range(format!("{id}/")..format!("{id}0"));
        of.filter(|(key, _)| key.contains("/undo") == undo).count()
    };
    for record in twin.records().await {
        let (state, phase) = (record.state.as_str(), record.phase.as_str());
        let reason = record.reason.as_deref().unwrap_or_default();
        let tried = twin.yard.failures(&record.subject) > 0;
        let open_children = twin.engine.open_children(record.id).await.expect("they are listed").len();
        let kind = match (state, phase, reason) {
            ("Asking", "forward", _) => Kind::Approval,
            ("Listening", "forward", _) if record.subject.starts_with("chore") => Kind::Child,
            ("Listening", "forward", _) => Kind::Signal,
            ("Sleeping", "forward", _) => Kind::Timer,
            ("Trying", "forward", _) if tried => Kind::Retrying,
            ("Trying", "forward", _) => Kind::InFlight,
            ("Trying", "parked", "outcome_unknown") => Kind::Unknown,
            ("Committing", "parked", "past_pivot_failure") => Kind::Parked,
            ("Spreading", "forward", _) if done(record.id, false) == 2 => Kind::FanOut,
            ("Parenting", "forward", _) if open_children == 2 => Kind::Parent,
            (_, "compensating", _) if done(record.id, true) == 1 => Kind::Unwinding,
            _ => panic!("{} is in an unexpected condition: {state} {phase} {reason}", record.subject),
        };
        *found.entry(kind).or_default() += 1;
    }
    found
}

/// Marks an export as a move. The exported store of a move is held; here it continues as a twin, for comparison.
fn as_a_move(file: &Path) {
    let text = std::fs::read_to_string(file).expect("the export is there");
    let (lines, trailer) = text.trim_end().rsplit_once('\n').expect("an export has a trailer");
    let mut trailer: serde_json::Value = serde_json::from_str(trailer).expect("it is JSON");
    trailer["trailer"]["moved"] = true.into();
    std::fs::write(file, format!("{lines}\n{trailer}\n")).expect("it is written");
}

/// Imports the export into an empty database and opens it.
async fn settle_in(options: &PostgresOptions, file: &Path) -> Arc<Postgres> {
    let store = Postgres::open(options.clone()).await.expect("the database opens");
    store.import(File::open(file).expect("the export is there")).await.expect("it is read");
    Arc::new(store)
}

/// Imports the export into a folder and opens it.
async fn settle_back(dir: &Path, file: &Path) -> Arc<Embedded> {
    transfer::import(File::open(file).expect("the export is there"), dir).expect("it is read");
    Arc::new(Embedded::open(dir, Options::default()).expect("the folder opens").store)
}

/// Returns the tasks in an export that were leased before.
fn handed_out(file: &Path) -> usize {
    let lines = BufReader::new(File::open(file).expect("the export is there")).lines().map_while(Result::ok);
    lines.filter(|line| line.starts_with("{\"task\"") && line.contains("\"deliveries\":1")).count()
}

/// Compares each execution with the unmoved one.
async fn compare(moved: &mut Moved, stayed: &Twin, others: [(&Twin, &str); 2]) {
    let measure = stayed.account().await;
    moved.wrong = measure.twice("stayed");
    for (twin, name) in others {
        let account = twin.account().await;
        moved.wrong.extend(account.twice(name));
        moved.wrong.extend(account.differences(&measure, name));
    }
    moved.effects = measure.effects.len();
    for (state, phase, reason) in measure.ends.into_values() {
        *moved.ends.entry(format!("{state} {phase} {reason}")).or_default() += 1;
    }
}

/// Starts `count` executions, and brings each into its condition.
async fn under_way(dir: &Path, count: usize) -> (Arc<Embedded>, Twin) {
    let store = Arc::new(Embedded::open(dir, Options::default()).expect("a folder").store);
    let twin = Twin::on(store.clone(), BEGUN, Yard::default());
    twin.begin(count).await;
    twin.work().await;
    // The retries have failed more than once, and a worker dies with the last ones.
    twin.settle(20 * SECOND).await;
    for record in twin.records().await.iter().filter(|record| record.state == "Arriving") {
        twin.engine.signal(record.id, "come").await.expect("the signal is sent");
    }
    twin.lose_a_worker().await;
    (store, twin)
}

/// Starts `count` executions in `dir`, brings each into its condition, exports all of them, and runs three copies to
/// their ends: the original, one in the database, and one that moves back half way from the database into a folder.
pub async fn run(dir: &Path, options: &PostgresOptions, count: usize) -> Moved {
    let mut moved = Moved::default();
    let (first, stayed) = under_way(&dir.join("a"), count).await;
    moved.conditions = conditions(&stayed).await;
    moved.executions = stayed.records().await.len();
    let now = stayed.clock.now().after(2 * SECOND);

    let (out, half) = (dir.join("out.jsonl"), dir.join("half.jsonl"));
    let closing = Instant::now();
    transfer::export(&first, File::create(&out).expect("a file"), Source::KeepsRunning)
        .await
        .expect("it is exported");
    moved.export = closing.elapsed();
    as_a_move(&out);
    moved.bytes = std::fs::metadata(&out).expect("a file").len();
    let importing = Instant::now();
    let second = settle_in(options, &out).await;
    moved.import = importing.elapsed();
    let probe = TaskId { execution: ExecutionId::new(BEGUN, [0; 10]), visit: 0, slot: 0 };
    let nothing = store::Commit { retire: vec![probe], ..store::Commit::default() };
    second.commit(nothing).await.expect("it commits");
    moved.down = closing.elapsed();
    moved.in_flight = handed_out(&out);

    stayed.clock.advance_to(now);
    let there = Twin::on(second.clone(), now, stayed.yard.twin());
    let resuming = Instant::now();
    stayed.answer().await;
    stayed.settle(48 * HOUR).await;
    moved.resume[0] = resuming.elapsed();
    let resuming = Instant::now();
    there.answer().await;
    let answered = resuming.elapsed();
    second.export(File::create(&half).expect("a file"), Source::KeepsRunning).await.expect("it is exported");
    as_a_move(&half);
    let third = settle_back(&dir.join("b"), &half).await;
    let back = Twin::on(third.clone(), there.clock.now(), there.yard.twin());
    let resuming = Instant::now();
    there.settle(48 * HOUR).await;
    moved.resume[1] = answered + resuming.elapsed();
    let resuming = Instant::now();
    back.settle(48 * HOUR).await;
    moved.resume[2] = answered + resuming.elapsed();

    compare(&mut moved, &stayed, [(&there, "moved"), (&back, "moved back")]).await;
    for store in [first, third] {
        store.close().await.expect("it closes");
    }
    second.close().await.expect("it closes");
    moved
}
