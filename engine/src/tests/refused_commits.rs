//! A commit that the store refuses permanently parks its execution, and affects no other.

use crate::{
    Action, ActionError, Attribution, Call, Clock as _, Engine, Entity, Event, LedgerAction, ManualClock,
    Outcome, Person, Plan, Probe, Reason, Request, Step, Subject, Undecided, View, Workflow, act, act_each,
    end, runtime::adapter::advance::EXECUTION_LIMIT, wait,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use store::{ExecutionId, Memory, Timestamp};

/// The external effects.
#[derive(Default)]
struct Outside {
    done: AtomicUsize,
    undone: AtomicUsize,
    probed: AtomicUsize,
}

/// Returns this many bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fetch {
    bytes: usize,
}
impl Action for Fetch {
    const NAME: &'static str = "Fetch";
    type Platform = Outside;
    type Output = String;

    async fn run(&self, on: &Outside, _: &Call) -> Result<String, ActionError> {
        on.done.fetch_add(1, Ordering::SeqCst);
        Ok("x".repeat(self.bytes))
    }

    async fn probe(&self, on: &Outside, _: &Call) -> Result<Probe<String>, ActionError> {
        on.probed.fetch_add(1, Ordering::SeqCst);
        Ok(Probe::Done("x".repeat(self.bytes)))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PutBack;
impl Action for PutBack {
    const NAME: &'static str = "PutBack";
    type Platform = Outside;
    type Output = ();

    async fn run(&self, on: &Outside, _: &Call) -> Result<(), ActionError> {
        on.undone.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Writes a document with an invalid name or an excessive size.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct WriteBook {
    book: Book,
}
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Book {
    name: String,
    bytes: usize,
    text: String,
}
impl Entity for Book {
    const COLLECTION: &'static str = "books";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;
    fn id(&self) -> String {
        self.name.clone()
    }
}
impl LedgerAction for WriteBook {
    const NAME: &'static str = "WriteBook";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        view.put(&Book { text: "x".repeat(self.book.bytes), ..self.book.clone() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    Fetching,
    Writing,
    Waiting,
    Growing,
    Done,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Library {
    fetches: Vec<usize>,
    book: Option<(String, usize)>,
    /// The additional size after the wait, in bytes.
    grows: usize,
}
impl Workflow for Library {
    const NAME: &'static str = "library";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Fetching;
    type State = State;
    type Platform = Outside;

    fn step(&self, state: State) -> Step<Self> {
        let book = self
            .book
            .clone()
            .map(|(name, bytes)| WriteBook { book: Book { name, bytes, text: String::new() } });
        match state {
            State::Fetching => act_each(self.fetches.iter().map(|bytes| Fetch { bytes: *bytes }))
                .undo_each(|_| PutBack)
                .max_concurrent(1)
                .then(State::Writing),
            State::Writing => act_each(book).nothing_to_undo().then(State::Waiting),
            State::Waiting => wait(crate::MINUTE).then(State::Growing),
            State::Growing => act(Fetch { bytes: self.grows }).undo(PutBack).then(State::Done),
            State::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), name: "library/one".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self { fetches: vec![1], book: Some(("a".into(), 1)), grows: 1 }]
    }
}

struct Bench {
    engine: Engine<Outside>,
    clock: Arc<ManualClock>,
    outside: Arc<Outside>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp(1_000_000)));
        let outside = Arc::new(Outside::default());
        let engine = Engine::new(Arc::new(Memory::new()), clock.clone(), outside.clone());
        Self { engine: engine.with_workflow::<Library>().unwrap(), clock, outside }
    }

    async fn start(&self, fetches: &[usize], book: Option<(&str, usize)>, grows: usize) -> ExecutionId {
        let book = book.map(|(name, bytes)| (name.to_owned(), bytes));
        let library = Library { fetches: fetches.to_vec(), book, grows };
        self.engine.start(library, Request::by(&Person::new("ada", ["ops"]))).await.unwrap().id
    }

    /// Works for an hour, and fails if the engine does not become idle.
    async fn settle(&self) {
        let end = self.clock.now().after(crate::HOUR);
        for _ in 0..200 {
            self.engine.run_until_idle().await.unwrap();
            match self.engine.store().next_due().await.unwrap() {
                Some(next) if next <= end => self.clock.advance_to(next),
                Some(_) | None => return,
            }
        }
        panic!("it retries forever");
    }

    async fn shown(&self, id: ExecutionId) -> (String, Option<String>, Vec<String>) {
        let (record, view) = self.engine.execution(id).await.unwrap();
        let errors = view.body.pointer("/phase/parked/errors").and_then(Value::as_array).cloned();
        let errors = errors.unwrap_or_default();
        let codes = errors.iter().map(|error| error["code"].as_str().unwrap().to_owned());
        (record.phase, record.reason, codes.collect())
    }
}

fn order() -> Attribution {
    Attribution { by: "ada".into(), reason: "seen".into() }
}

/// A size at which two results do not fit: each is on the trail as well.
const LARGE: usize = EXECUTION_LIMIT / 3;

#[tokio::test]
async fn a_result_that_cannot_be_stored_parks_the_execution_and_notifies_operators() {
    #[expect(clippy::type_complexity, reason = "a table")]
    let cases: [(&[usize], Option<(&str, usize)>, &str); 4] = [
        (&[10, LARGE, LARGE, LARGE], None, "commit.too_large"),
        (&[10, EXECUTION_LIMIT * 2], None, "commit.too_large"),
        (&[10], Some(("a", store::paged::PAGED_LIMIT)), "commit.too_large"),
        (&[10], Some(("a\0b", 1)), "commit.invalid"),
    ];
    for (fetches, book, code) in cases {
        let bench = Bench::new();
        let id = bench.start(fetches, book, 1).await;
        bench.engine.run_until_idle().await.unwrap();

        let (phase, reason, codes) = bench.shown(id).await;
        assert_eq!((phase.as_str(), reason.as_deref()), ("parked", Some("commit_refused")));
        assert_eq!(codes, [code]);
        let parked = bench.engine.journal(id).await.unwrap();
        assert!(parked.iter().any(|entry| entry.event == "commit_refused"));
        let told = bench.engine.store().documents("notifications", "", None, 100).await.unwrap().items;
        assert!(told.iter().any(|told| String::from_utf8_lossy(&told.body).contains("commit_refused")));
        let done = bench.outside.done.load(Ordering::SeqCst);
        bench.settle().await;
        assert_eq!(bench.outside.done.load(Ordering::SeqCst), done, "it is not retried automatically");
    }
}

#[tokio::test]
async fn an_execution_without_room_can_be_cancelled() {
    let bench = Bench::new();
    let id = bench.start(&[10, LARGE, LARGE, LARGE], None, 1).await;
    bench.settle().await;

    bench.engine.cancel(id, order()).await.unwrap();
    bench.settle().await;

    let (phase, reason, _) = bench.shown(id).await;
    assert_eq!((phase.as_str(), reason.as_deref()), ("finished", Some("cancelled")));
    assert_eq!(bench.outside.undone.load(Ordering::SeqCst), bench.outside.done.load(Ordering::SeqCst));
}

#[tokio::test]
async fn an_execution_without_room_can_be_terminated_and_lists_its_leftovers() {
    let bench = Bench::new();
    let id = bench.start(&[10, LARGE, LARGE, LARGE], None, 1).await;
    bench.settle().await;

    bench.engine.deliver(id, Event::TerminateRequested(order())).await.unwrap();

    let (record, view) = bench.engine.execution(id).await.unwrap();
    assert_eq!((record.phase.as_str(), record.reason.as_deref()), ("finished", Some("terminated")));
    let leaks = view.body.pointer("/phase/finished/leaks").and_then(Value::as_array).map(Vec::len);
    assert_eq!(leaks, Some(bench.outside.done.load(Ordering::SeqCst)));
    let longest = bench.engine.journal(id).await.unwrap().iter().map(|entry| entry.detail.len()).max();
    assert!(longest.unwrap() < 64 << 10, "{longest:?}");
}

#[tokio::test]
async fn a_retry_probes_first_after_a_result_could_not_be_stored() {
    let bench = Bench::new();
    let id = bench.start(&[10, EXECUTION_LIMIT * 2], None, 1).await;
    bench.settle().await;
    let done = bench.outside.done.load(Ordering::SeqCst);

    bench.engine.deliver(id, Event::RetryRequested(order())).await.unwrap();
    bench.settle().await;

    assert_eq!(bench.shown(id).await.1.as_deref(), Some("commit_refused"));
    assert_eq!(bench.outside.done.load(Ordering::SeqCst), done, "it is not done twice");
    assert_eq!(bench.outside.probed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_refused_commit_has_its_own_parking_reason_and_a_large_request_is_an_error() {
    let bench = Bench::new();
    let id = bench.start(&[10], None, EXECUTION_LIMIT * 2).await;
    bench.settle().await;
    assert_eq!(bench.shown(id).await.1.as_deref(), Some("commit_refused"));
    assert_eq!(Into::<&str>::into(Reason::CommitRefused), "commit_refused");

    let book = Some(("x".repeat(EXECUTION_LIMIT), 1));
    let large = Library { fetches: Vec::new(), book, grows: 1 };
    let refused = bench.engine.start(large, Request::by(&Person::new("ada", ["ops"]))).await;
    assert!(matches!(&refused, Err(crate::Error::Store(error)) if !error.may_pass()), "{refused:?}");
}
