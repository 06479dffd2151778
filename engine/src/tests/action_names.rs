//! Actions are persisted by their `NAME`, whatever their types are called.

use crate::{
    Action, ActionError, Attribution, Call, DAY, Engine, Flaw, LedgerAction, ManualClock, Outcome, Person,
    Plan, Request, Step, Subject, Undecided, View, Workflow, act, await_signal, check, diagram, end,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use store::{ExecutionId, Memory, Timestamp};
use strum::{IntoStaticStr, VariantArray};

/// The types whose actions ran.
type Library = Arc<Mutex<Vec<&'static str>>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Lend;
impl Action for Lend {
    const NAME: &'static str = "LendBook";
    type Platform = Library;
    type Output = ();
    async fn run(&self, library: &Library, _: &Call) -> Result<(), ActionError> {
        library.lock().unwrap().push("Lend");
        Ok(())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TakeBack;
impl Action for TakeBack {
    const NAME: &'static str = "ReturnBook";
    type Platform = Library;
    type Output = ();
    async fn run(&self, library: &Library, _: &Call) -> Result<(), ActionError> {
        library.lock().unwrap().push("TakeBack");
        Ok(())
    }
}

/// The same action as [`TakeBack`], under the type name of a later release.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Reshelve;
impl Action for Reshelve {
    const NAME: &'static str = "ReturnBook";
    type Platform = Library;
    type Output = ();
    async fn run(&self, library: &Library, _: &Call) -> Result<(), ActionError> {
        library.lock().unwrap().push("Reshelve");
        Ok(())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note;
impl LedgerAction for Note {
    const NAME: &'static str = "FileCard";
    type Output = ();
    fn decide(&self, _: &mut View, _: &Call) -> Result<(), Undecided> {
        Ok(())
    }
}

/// Has the name of the engine's undo of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Reserved;
impl LedgerAction for Reserved {
    const NAME: &'static str = "cancel child";
    type Output = ();
    fn decide(&self, _: &mut View, _: &Call) -> Result<(), Undecided> {
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
enum State {
    Lending,
    Reading,
    Filing,
    Filed,
    Lost,
}

/// The first release.
const FIRST: u8 = 0;
/// The type of the undo has another name.
const RENAMED: u8 = 1;
/// Two types have the same name.
const TWINS: u8 = 2;
/// An action has a name that the engine reserves.
const RESERVED: u8 = 3;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Loan<const KIND: u8>;
impl<const KIND: u8> Workflow for Loan<KIND> {
    const NAME: &'static str = "loan";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Lending;
    type State = State;
    type Platform = Library;

    fn step(&self, state: State) -> Step<Self> {
        match (state, KIND) {
            (State::Lending, RENAMED) => act(Lend).undo(Reshelve).then(State::Reading),
            (State::Lending, _) => act(Lend).undo(TakeBack).then(State::Reading),
            (State::Reading, _) => await_signal("read").within(DAY).then(State::Filing).expired(State::Lost),
            (State::Filing, TWINS) => act(Reshelve).nothing_to_undo().then(State::Filed),
            (State::Filing, RESERVED) => act(Reserved).nothing_to_undo().then(State::Filed),
            (State::Filing, _) => act(Note).nothing_to_undo().then(State::Filed),
            (State::Filed, _) => end(Outcome::Completed),
            (State::Lost, _) => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject::default()
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self]
    }
}

fn engine<const KIND: u8>(store: &Arc<Memory>, library: &Library) -> Engine<Library> {
    let clock = Arc::new(ManualClock::starting_at(Timestamp(1_000_000)));
    Engine::new(store.clone(), clock, library.clone()).with_workflow::<Loan<KIND>>().unwrap()
}

async fn start_loan(engine: &Engine<Library>) -> ExecutionId {
    let id = engine.start(Loan::<FIRST>, Request::by(&Person::new("ada", ["reader"]))).await.unwrap().id;
    engine.run_until_idle().await.unwrap();
    id
}

#[tokio::test]
async fn trails_journals_and_diagrams_name_an_action_by_its_constant() {
    let engine = engine::<FIRST>(&Arc::default(), &Library::default());

    let id = start_loan(&engine).await;
    let (_, shown) = engine.execution(id).await.unwrap();
    engine.signal(id, "read").await.unwrap();
    engine.run_until_idle().await.unwrap();

    let mark = &shown.body["trail"][0];
    assert_eq!((&mark["action"], &mark["undo"]), (&"LendBook".into(), &"ReturnBook".into()));
    let details = engine.journal(id).await.unwrap();
    let details = details.iter().map(|entry| serde_json::from_slice::<Value>(&entry.detail).unwrap());
    let tried = details
        .filter_map(|detail| detail.pointer("/event/settled/tried/action")?.as_str().map(str::to_owned));
    assert_eq!(tried.collect::<Vec<_>>(), ["LendBook", "FileCard"]);
    let states = diagram::<Loan<FIRST>>().states;
    let drawn = |name: &str| states.iter().find(|state| state.name == name).unwrap();
    assert_eq!(
        (&drawn("Lending").actions, &drawn("Lending").undos),
        (&vec!["LendBook".into()], &vec!["ReturnBook".into()])
    );
    assert_eq!(drawn("Filing").actions, ["FileCard"]);
}

#[tokio::test]
async fn an_undo_with_a_renamed_type_undoes_the_work_of_an_earlier_release() {
    let (store, library) = (Arc::default(), Library::default());
    let id = start_loan(&engine::<FIRST>(&store, &library)).await;

    let later = engine::<RENAMED>(&store, &library);
    later.cancel(id, Attribution { by: "ada".into(), reason: "read it already".into() }).await.unwrap();
    later.run_until_idle().await.unwrap();

    assert_eq!(*library.lock().unwrap(), ["Lend", "Reshelve"]);
    assert_eq!(later.record(id).await.unwrap().reason.as_deref(), Some("cancelled"));
}

#[test]
fn a_shared_or_reserved_action_name_is_refused() {
    assert_eq!(check::<Loan<FIRST>>(), []);
    assert_eq!(check::<Loan<RENAMED>>(), []);
    assert_eq!(check::<Loan<TWINS>>(), [Flaw::AmbiguousAction("ReturnBook".into())]);
    assert_eq!(check::<Loan<RESERVED>>(), [Flaw::AmbiguousAction("cancel child".into())]);
}
