//! Several versions of one workflow on one store. S58.

mod rolling_update;

use super::MigrationAnswer as Answer;
use crate::{
    Action, ActionError, Call, DAY, Engine, Error, ManualClock, Outcome, Person, Plan, Request, Step,
    Subject, UpgradeError, Workflow, act, await_signal, end,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Commit, ExecutionId, Filter, Memory, Record, Revision, Store as _, Timestamp, Write};

const NOW: Timestamp = Timestamp(1_795_000_000_000);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pack;
impl Action for Pack {
    const NAME: &'static str = "Pack";
    type Platform = ();
    type Output = ();
    async fn run(&self, (): &(), _: &Call) -> Result<(), ActionError> {
        Ok(())
    }
}

fn plan() -> Plan {
    Plan { title: "send a parcel".into(), decides: json!("a parcel"), placement: json!(null) }
}

fn subject(name: &str) -> Subject {
    Subject { tenant: String::new(), name: format!("parcel/{name}"), guard: None }
}

/// The first version: parcels were weighed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct First {
    to: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum FirstState {
    Packing,
    Weighing,
    AtDoor,
    Taken,
    Returned,
}

impl Workflow for First {
    const NAME: &'static str = "parcel";
    const SCHEMA: u32 = 1;
    const INITIAL: FirstState = FirstState::Packing;
    type State = FirstState;
    type Platform = ();

    fn step(&self, state: FirstState) -> Step<Self> {
        use FirstState::{AtDoor, Packing, Returned, Taken, Weighing};
        match state {
            Packing => act(Pack).undo(Pack).then(Weighing),
            Weighing => await_signal("weighed").within(DAY).then(AtDoor).expired(Returned),
            AtDoor => await_signal("taken").within(DAY).then(Taken).expired(Returned),
            Taken => end(Outcome::Completed),
            Returned => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        subject(&self.to)
    }

    fn plan(&self) -> Plan {
        plan()
    }

    fn examples() -> Vec<Self> {
        vec![Self { to: "ada".into() }]
    }
}

/// The third version: parcels are not weighed, and recipients have a region. The second version had renamed `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Third {
    recipient: Recipient,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Recipient {
    name: String,
    region: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum ThirdState {
    Packing,
    AtDoor,
    Taken,
    Returned,
}

impl Workflow for Third {
    const NAME: &'static str = "parcel";
    const SCHEMA: u32 = 3;
    const INITIAL: ThirdState = ThirdState::Packing;
    type State = ThirdState;
    type Platform = ();

    fn step(&self, state: ThirdState) -> Step<Self> {
        use ThirdState::{AtDoor, Packing, Returned, Taken};
        match state {
            Packing => act(Pack).undo(Pack).then(AtDoor),
            AtDoor => await_signal("taken").within(DAY).then(Taken).expired(Returned),
            Taken => end(Outcome::Completed),
            Returned => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        subject(&self.recipient.name)
    }

    fn plan(&self) -> Plan {
        plan()
    }

    fn examples() -> Vec<Self> {
        vec![Self { recipient: Recipient { name: "ada".into(), region: None } }]
    }

    fn upgrade(from: u32, mut body: Value) -> Result<Value, UpgradeError> {
        let name = match from {
            1 => body["to"].take(),
            2 => body["recipient"].take(),
            _ => return Err(UpgradeError { from, why: "no such schema was released".into() }),
        };
        Ok(json!({ "recipient": { "name": name, "region": null } }))
    }
}

struct Bench {
    store: Arc<Memory>,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new() -> Self {
        Self { store: Arc::new(Memory::new()), clock: Arc::new(ManualClock::starting_at(NOW)) }
    }

    fn engine<W: Workflow<Platform = ()>>(&self) -> Engine<()> {
        Engine::new(self.store.clone(), self.clock.clone(), ()).with_workflow::<W>().unwrap()
    }

    /// Stores an execution with the body of a file in `golden/`.
    async fn resting(&self, number: u8, schema: u32, state: &str, body: &str) -> ExecutionId {
        let id = ExecutionId::new(NOW, [number; 10]);
        let record = Record {
            id,
            revision: Revision(0),
            workflow: "parcel".into(),
            schema,
            tenant: String::new(),
            subject: "parcel/ada".into(),
            guard: None,
            state: state.into(),
            phase: "forward".into(),
            reason: None,
            open: true,
            requested_by: "ada".into(),
            created_at: NOW,
            updated_at: NOW,
            body: body.trim().as_bytes().to_vec(),
            attributes: Default::default(),
        };
        let record = Some(Write { record, expected: None });
        self.store.commit(Commit { record, ..Commit::default() }).await.unwrap();
        id
    }

    async fn all(&self) -> [ExecutionId; 4] {
        [
            self.resting(1, 1, "AtDoor", include_str!("golden/parcel.v1.json")).await,
            self.resting(2, 1, "Weighing", include_str!("golden/parcel-weighing.v1.json")).await,
            self.resting(3, 2, "AtDoor", include_str!("golden/parcel.v2.json")).await,
            self.resting(4, 3, "AtDoor", include_str!("golden/parcel.v3.json")).await,
        ]
    }
}

/// S58. The current engine reads every body that a release has written, and runs the execution to its end.
#[tokio::test]
async fn every_released_schema_is_readable_at_rest() {
    let bench = Bench::new();
    let [one, _, two, three] = bench.all().await;
    let engine = bench.engine::<Third>();
    for id in [one, two, three] {
        let (_, shown) = engine.execution(id).await.unwrap();
        assert_eq!(shown.body["data"], json!({ "recipient": { "name": "ada", "region": null } }));
        engine.signal(id, "taken").await.unwrap();
        let record = engine.record(id).await.unwrap();
        assert_eq!((record.schema, record.reason.as_deref()), (3, Some("completed")));
    }
}

/// The newest golden file is what the current engine writes: a change of its form needs a new file and a new schema.
#[tokio::test]
async fn the_current_engine_writes_the_newest_golden_body() {
    let bench = Bench::new();
    let engine = bench.engine::<Third>();
    let data = Third { recipient: Recipient { name: "ada".into(), region: None } };
    let id = engine.start(data, Request::by(&Person::new("ada", ["staff"]))).await.unwrap().id;
    engine.run_until_idle().await.unwrap();
    let written = String::from_utf8(engine.record(id).await.unwrap().body).unwrap();
    if std::env::var_os("BLESS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/operations/migration/golden/parcel.v3.json");
        std::fs::write(file, format!("{written}\n")).unwrap();
    }
    assert_eq!(written, include_str!("golden/parcel.v3.json").trim());
}

/// S58.
#[tokio::test]
async fn a_dry_run_says_which_would_be_migrated_and_which_cannot_and_changes_nothing() {
    let bench = Bench::new();
    let [one, weighing, two, _] = bench.all().await;
    let engine = bench.engine::<Third>();
    let before = bench.store.health().await.sequence;

    let found = engine.outdated(None).await.unwrap();

    let ids: Vec<_> = found.iter().map(|one| one.record.id).collect();
    assert_eq!(ids, [one, weighing, two], "current executions are not listed");
    assert_eq!([&found[0].answer, &found[2].answer], [&Answer::Planned(3), &Answer::Planned(3)]);
    let Answer::Refused(why) = &found[1].answer else { panic!("{:?}", found[1]) };
    assert!(why.contains("it is in Weighing, which schema 3 does not have"), "{why}");
    assert_eq!(bench.store.health().await.sequence, before);
    assert_eq!(engine.outdated(Some("letter")).await.unwrap(), []);
}

/// S58. An execution that cannot be migrated stays unchanged. It can end, or move on, in the version that has its
/// state.
#[tokio::test]
async fn a_migration_writes_a_journal_entry_and_does_not_change_unreadable_executions() {
    let bench = Bench::new();
    let [one, weighing, two, _] = bench.all().await;
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let untouched = new.record(weighing).await.unwrap();
    let before = new.record(one).await.unwrap().revision;

    let done = new.migrate(Some("parcel"), "olga").await.unwrap();

    assert_eq!(done.iter().filter(|one| one.answer == Answer::Migrated(3)).count(), 2);
    for id in [one, two] {
        let record = new.record(id).await.unwrap();
        assert_eq!((record.schema, record.state.as_str()), (3, "AtDoor"));
        assert!(record.revision > before);
        let history = new.journal(id).await.unwrap();
        let line = history.last().unwrap();
        assert_eq!((line.event.as_str(), line.actor.as_str()), ("migrated", "olga"));
        assert_eq!((line.from.as_str(), line.to.as_str()), ("AtDoor", "AtDoor"));
    }
    assert_eq!(new.record(weighing).await.unwrap(), untouched);
    assert!(matches!(new.signal(weighing, "weighed").await, Err(Error::Unreadable { .. })));

    old.signal(weighing, "weighed").await.unwrap();
    let rest = new.migrate(None, "olga").await.unwrap();
    assert_eq!((rest.len(), &rest[0].answer), (1, &Answer::Migrated(3)));
    assert_eq!(new.migrate(None, "olga").await.unwrap(), [], "no execution is left to migrate");
}

/// S58. An engine without the schema skips its executions and counts them; the other engine continues them.
#[tokio::test]
async fn an_engine_skips_and_counts_executions_of_a_newer_schema() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let person = Person::new("ada", ["staff"]);
    let first = old.start(First { to: "bob".into() }, Request::by(&person)).await.unwrap().id;
    let data = Third { recipient: Recipient { name: "ada".into(), region: None } };
    let third = new.start(data, Request::by(&person)).await.unwrap().id;

    old.run_until_idle().await.unwrap();

    assert_eq!(old.record(first).await.unwrap().state, "Weighing", "its own execution continues");
    assert_eq!(old.record(third).await.unwrap().state, "Packing", "the newer one is left");
    let counted = old.schema_usage().await.unwrap();
    let told: Vec<_> = counted.iter().map(|row| (row.schema, row.open, row.status())).collect();
    assert_eq!(told, [(1, 1, "current"), (3, 1, "no_worker")]);
    let blocked = old.outdated(None).await.unwrap();
    let Answer::Refused(why) = &blocked[0].answer else { panic!("{blocked:?}") };
    assert!(why.contains("no workflow parcel with schema 3"), "{why}");

    bench.clock.advance(crate::MINUTE);
    new.run_until_idle().await.unwrap();
    assert_eq!(new.record(third).await.unwrap().state, "AtDoor");
    let told: Vec<_> =
        new.schema_usage().await.unwrap().iter().map(|row| (row.schema, row.open, row.status())).collect();
    assert_eq!(told, [(1, 1, "older"), (3, 1, "current")]);
    let open = Filter { open: Some(true), ..Filter::default() };
    assert_eq!(new.list(&open, None, 10).await.unwrap().items.len(), 2);
    new.signal(third, "taken").await.unwrap();
    let told: Vec<_> = new.schema_usage().await.unwrap().iter().map(|row| (row.schema, row.open)).collect();
    assert_eq!(told, [(1, 1), (3, 0)], "finished executions are not counted");
}

/// An action that was begun in a removed state could not be undone.
#[tokio::test]
async fn an_execution_with_an_undo_in_a_removed_state_is_not_migrated() {
    let bench = Bench::new();
    let body = include_str!("golden/parcel.v1.json").replace(r#""state":"Packing""#, r#""state":"Wrapping""#);
    bench.resting(1, 1, "AtDoor", &body).await;
    let found = bench.engine::<Third>().migrate(None, "olga").await.unwrap();
    let Answer::Refused(why) = &found[0].answer else { panic!("{found:?}") };
    assert!(why.contains("Wrapping"), "{why}");
}
