//! Results that an operator can state, and results that only the action can provide.

use crate::{
    Action, ActionError, Attribution, Call, Engine, Error, Event, LedgerAction, MadeRepair, ManualClock,
    Outcome, Person, Plan, Refusal, Repair, Request, ResultSource, Rule, Step, Subject, Undecided, View,
    Workflow, act, end, when,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{ExecutionId, Memory, Timestamp};
use strum::{IntoStaticStr, VariantArray};

/// The behaviour of the step that fails permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Look,
    Work,
    Book,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Checkup {
    kind: Kind,
    seen: bool,
    repairs: Vec<MadeRepair>,
}

impl Checkup {
    fn of(kind: Kind) -> Self {
        Self { kind, seen: false, repairs: Vec::new() }
    }

    fn saw(&mut self, (): ()) {
        self.seen = true;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
enum State {
    Asking,
    Committing,
    Acting,
    LeftOut,
    Done,
    Declined,
}

fn refused() -> ActionError {
    ActionError::permanent("it.fails", "the shelf is locked")
}

/// Succeeds, and passes the pivot.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Commit;
impl Action for Commit {
    const NAME: &'static str = "Commit";
    type Platform = ();
    type Output = ();

    async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> {
        Ok(())
    }
}

/// An action without a `RESULT`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Look {
    shelf: String,
}
impl Action for Look {
    const NAME: &'static str = "Look";
    type Platform = ();
    type Output = ();

    async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> {
        Err(refused())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Work {
    shelf: String,
}
impl Action for Work {
    const NAME: &'static str = "Work";
    type Platform = ();
    type Output = ();
    const RESULT: ResultSource = ResultSource::Deed;

    async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> {
        Err(refused())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Book;
impl LedgerAction for Book {
    const NAME: &'static str = "Book";
    type Output = ();

    fn decide(&self, _: &mut View, _: &Call) -> Result<(), Undecided> {
        Err(refused().into())
    }
}

impl Workflow for Checkup {
    const NAME: &'static str = "checkup";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Asking;
    const EDITABLE: Option<&'static [&'static str]> = Some(&["kind"]);
    type State = State;
    type Platform = ();

    fn step(&self, state: State) -> Step<Self> {
        let shelf = "a1".to_owned();
        match state {
            State::Asking => when(true, "always", State::Committing)
                .waived_by(Rule { name: "tests".into(), version: "1".into() })
                .otherwise("never", State::Declined),
            State::Committing => act(Commit).forward_only().then(State::Acting),
            State::Acting => match self.kind {
                Kind::Look => act(Look { shelf })
                    .forward_only()
                    .record(Self::saw)
                    .optional_to(State::LeftOut)
                    .then(State::Done),
                Kind::Work => act(Work { shelf }).forward_only().record(Self::saw).then(State::Done),
                Kind::Book => act(Book).forward_only().record(Self::saw).then(State::Done),
            },
            State::LeftOut | State::Done => end(Outcome::Completed),
            State::Declined => end(Outcome::Refused),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), name: "checkup".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn note_repair(&mut self, repair: MadeRepair) {
        self.repairs.push(repair);
    }

    fn examples() -> Vec<Self> {
        [Kind::Look, Kind::Work, Kind::Book].map(Self::of).to_vec()
    }
}

/// Returns an engine with a checkup that is parked past its pivot, because its step fails.
async fn parked(kind: Kind) -> (Engine<()>, ExecutionId) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp(1_000)));
    let engine =
        Engine::new(Arc::new(Memory::new()), clock, Arc::new(())).with_workflow::<Checkup>().unwrap();
    let by = Request::by(&Person::new("rita", ["ops"]));
    let id = engine.start(Checkup::of(kind), by).await.unwrap().id;
    engine.run_until_idle().await.unwrap();
    let record = engine.record(id).await.unwrap();
    assert_eq!((record.state.as_str(), record.phase.as_str()), ("Acting", "parked"));
    (engine, id)
}

fn repaired(repair: Repair) -> Event {
    Event::Repaired { repair, order: Attribution { by: "olga".into(), reason: "I looked".into() } }
}

fn done() -> Repair {
    Repair::MarkDone { slot: 0, output: Value::Null, evidence: "ticket 4711".into() }
}

async fn refusal(engine: &Engine<()>, id: ExecutionId, repair: Repair) -> Refusal {
    let before = engine.record(id).await.unwrap();
    let refused = match engine.deliver(id, repaired(repair)).await {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(engine.record(id).await.unwrap(), before, "a refused repair changes nothing");
    refused
}

async fn data(engine: &Engine<()>, id: ExecutionId) -> Value {
    let record = engine.record(id).await.unwrap();
    let body: Value = serde_json::from_slice(&record.body).unwrap();
    body["data"].clone()
}

#[tokio::test]
async fn an_action_is_an_observation_by_default_and_cannot_be_stated() {
    let (engine, id) = parked(Kind::Look).await;

    let refused = refusal(&engine, id, done()).await;

    assert_eq!(refused.code(), "repair.observation");
    assert!(matches!(&refused, Refusal::NotStatable { what, .. } if what == "Look"), "{refused}");
    assert!(refused.to_string().contains("skip the step"), "the message has a remedy: {refused}");
}

#[tokio::test]
async fn a_decision_on_documents_cannot_be_stated() {
    let (engine, id) = parked(Kind::Book).await;

    let refused = refusal(&engine, id, done()).await;

    assert_eq!(refused.code(), "repair.observation");
    assert!(refused.to_string().contains("retry"), "{refused}");
}

#[tokio::test]
async fn an_observation_cannot_be_stated_by_an_edit_of_the_data() {
    let (engine, id) = parked(Kind::Look).await;

    let refused = refusal(&engine, id, Repair::Edit { patch: json!({ "seen": true }) }).await;

    assert!(matches!(&refused, Refusal::NotStatable { what, .. } if what == "seen"), "{refused}");
    let removed =
        refusal(&engine, id, Repair::Edit { patch: json!({ "kind": "Work", "repairs": [] }) }).await;
    assert_eq!(removed.code(), "repair.observation", "nor can the list of repairs be emptied");
}

#[tokio::test]
async fn a_stated_result_is_recorded_with_both_people_and_the_errors() {
    let (engine, id) = parked(Kind::Work).await;

    let event = Event::Seconded { event: Box::new(repaired(done())), by: "lena".into() };
    engine.deliver(id, event).await.unwrap();
    engine.run_until_idle().await.unwrap();

    let data = data(&engine, id).await;
    assert_eq!(data["seen"], true);
    let noted: Vec<MadeRepair> = serde_json::from_value(data["repairs"].clone()).unwrap();
    assert_eq!(noted.len(), 1);
    let made = &noted[0];
    assert_eq!(
        (made.kind.as_str(), made.state.as_str(), made.action.as_str()),
        ("mark_done", "Acting", "Work")
    );
    assert_eq!((made.by.as_str(), made.seconded_by.as_deref()), ("olga", Some("lena")));
    assert_eq!((made.evidence.as_str(), made.reason.as_str()), ("ticket 4711", "I looked"));
    assert_eq!(made.arguments, json!({ "shelf": "a1" }));
    assert_eq!(made.errors, ["it.fails: the shelf is locked"]);
}

#[tokio::test]
async fn a_skipped_observation_takes_its_own_edge_and_records_no_result() {
    let (engine, id) = parked(Kind::Look).await;

    engine.deliver(id, repaired(Repair::Skip { slot: None })).await.unwrap();

    assert_eq!(engine.record(id).await.unwrap().state, "LeftOut");
    let data = data(&engine, id).await;
    assert_eq!((&data["seen"], &data["repairs"][0]["kind"]), (&json!(false), &json!("skip")));
}
