//! Call metadata for tests without an engine. Only an engine can make calls, so one is taken from an engine.

use engine::{
    Action, ActionError, Call, Engine, ManualClock, Outcome, Plan, Request, Step, Subject, Workflow,
};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use store::{Epoch, Memory, Timestamp};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Lend;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    Lending,
    Lent,
}

type Lent = Arc<Mutex<Option<Call>>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeepCall;

impl Action for KeepCall {
    const NAME: &'static str = "KeepCall";
    type Platform = Lent;
    type Output = ();

    async fn run(&self, on: &Lent, call: &Call) -> Result<(), ActionError> {
        *on.lock().unwrap() = Some(call.clone());
        Ok(())
    }
}

impl Workflow for Lend {
    const NAME: &'static str = "lend";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Lending;
    type State = State;
    type Platform = Lent;

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Lending => {
                engine::act(KeepCall).nothing_to_undo().within(engine::MINUTE).then(State::Lent)
            }
            State::Lent => engine::end(Outcome::Completed),
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

/// Returns a first call, as an engine makes it.
///
/// # Panics
/// If the engine makes none.
pub async fn first_call() -> Call {
    let lent = Lent::default();
    let clock = Arc::new(ManualClock::starting_at(Timestamp(1)));
    let engine =
        Engine::new(Arc::new(Memory::default()), clock, lent.clone()).with_workflow::<Lend>().unwrap();
    engine.start(Lend, Request::default()).await.unwrap();
    engine.run_until_idle().await.unwrap();
    let call = lent.lock().unwrap().clone();
    call.unwrap()
}

/// Makes calls of different steps of one execution, each with a greater epoch than the one before.
#[derive(Clone, Debug)]
pub struct Calls {
    first: Call,
    epoch: u64,
}

impl Calls {
    /// From an engine.
    pub async fn new() -> Self {
        Self { first: first_call().await, epoch: 0 }
    }

    /// The next attempt of a step, or of its undo.
    pub fn next(&mut self, state: &str, undo: bool) -> Call {
        self.epoch += 1;
        self.at(state, undo, self.epoch)
    }

    /// An attempt at a given epoch.
    #[must_use]
    pub fn at(&self, state: &str, undo: bool, epoch: u64) -> Call {
        let mut call = self.first.clone();
        (call.state, call.undo, call.epoch) = (state.to_owned(), undo, Epoch(epoch));
        call
    }
}
