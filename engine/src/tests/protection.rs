//! A step that protects something: no later step runs without it.

use crate::{
    ActionError, Attribution, Call, Engine, Flaw, LedgerAction, ManualClock, Outcome, Person, Plan, Request,
    Step, Subject, Undecided, View, Workflow, act, check, end,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::{ExecutionId, Memory, Timestamp};
use strum::{IntoStaticStr, VariantArray};

/// Puts a hold in place, unless it is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Keep {
    refused: bool,
}
impl LedgerAction for Keep {
    const NAME: &'static str = "Keep";
    const PROTECTS: bool = true;
    type Output = ();
    fn decide(&self, _: &mut View, _: &Call) -> Result<(), Undecided> {
        if self.refused { Err(ActionError::permanent("hold.refused", "no reason").into()) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
enum State {
    Keeping,
    GoingOn,
}

/// The edge of the step past a failure.
const NOT_AT_ALL: u8 = 0;
const BY_OR_ELSE: u8 = 1;
const BY_A_CODE: u8 = 2;
const BY_LEAVING_IT_OUT: u8 = 3;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Incident<const PAST_FAILURE: u8> {
    refused: bool,
}
impl<const PAST_FAILURE: u8> Workflow for Incident<PAST_FAILURE> {
    const NAME: &'static str = "incident";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Keeping;
    type State = State;
    type Platform = ();

    fn step(&self, state: State) -> Step<Self> {
        let keep = || act(Keep { refused: self.refused }).nothing_to_undo();
        match (state, PAST_FAILURE) {
            (State::Keeping, BY_OR_ELSE) => keep().or_else(State::GoingOn).then(State::GoingOn),
            (State::Keeping, BY_A_CODE) => {
                keep().on_failure("hold.refused", State::GoingOn).then(State::GoingOn)
            }
            (State::Keeping, BY_LEAVING_IT_OUT) => keep().optional().then(State::GoingOn),
            (State::Keeping, _) => keep().then(State::GoingOn),
            (State::GoingOn, _) => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject::default()
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self { refused: false }]
    }
}

async fn refused() -> (Engine<()>, ExecutionId) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp(1_000_000)));
    let engine = Engine::new(Arc::new(Memory::new()), clock, ());
    let engine = engine.with_workflow::<Incident<NOT_AT_ALL>>().unwrap();
    let asked = Request::by(&Person::new("ada", ["security"]));
    let id = engine.start(Incident::<NOT_AT_ALL> { refused: true }, asked).await.unwrap().id;
    engine.run_until_idle().await.unwrap();
    (engine, id)
}

#[tokio::test]
async fn an_execution_whose_protection_fails_is_parked_and_can_be_cancelled() {
    let (engine, id) = refused().await;

    let record = engine.record(id).await.unwrap();
    assert_eq!((record.state.as_str(), record.phase.as_str()), ("Keeping", "parked"));
    assert_eq!(record.reason.as_deref(), Some("protection_failed"));

    engine.cancel(id, Attribution { by: "ada".into(), reason: "a false alarm".into() }).await.unwrap();
    engine.run_until_idle().await.unwrap();
    assert_eq!(engine.record(id).await.unwrap().reason.as_deref(), Some("cancelled"));
}

#[test]
fn a_workflow_with_an_edge_past_its_protection_is_not_registered() {
    let flaw = [Flaw::LeavesUnprotected("Keeping".into())];
    assert_eq!(check::<Incident<NOT_AT_ALL>>(), []);
    assert_eq!(check::<Incident<BY_OR_ELSE>>(), flaw);
    assert_eq!(check::<Incident<BY_A_CODE>>(), flaw);
    assert_eq!(check::<Incident<BY_LEAVING_IT_OUT>>(), flaw);
}
