//! Steps with hundreds of slots, whose execution is encoded piece by piece. Builds with debug assertions compare each body of up to 256 KiB
//! with the execution encoded as a whole, and an execution whose body differs does not go on.

use crate::{
    Action, ActionError, Attribution, Call, Clock as _, Engine, Event, ManualClock, Outcome, Person, Plan,
    Request, Step, Subject, Workflow, act_each, end,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::{Memory, Store as _, Timestamp, paged::INLINE_LIMIT};

const NODES: u32 = 200;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Wide {
    /// The node that cannot be read.
    broken: Option<u32>,
    taken: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    Taking,
    Reading,
    Done,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Take {
    node: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct GiveBack {
    node: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Read {
    node: u32,
    broken: bool,
}

impl Action for Take {
    const NAME: &'static str = "Take";
    type Platform = ();
    type Output = String;

    async fn run(&self, _: &(), call: &Call) -> Result<String, ActionError> {
        match (call.attempt, self.node % 7) {
            (1, 0) => Err(ActionError::transient("take.busy", "not yet")),
            (1, 2) => Err(ActionError::unknown("take.silent", "no answer")),
            _ => Ok(format!("{} of node {}", "taken ".repeat(12), self.node)),
        }
    }
}

impl Action for GiveBack {
    const NAME: &'static str = "GiveBack";
    type Platform = ();
    type Output = ();

    async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> {
        Ok(())
    }
}

impl Action for Read {
    const NAME: &'static str = "Read";
    type Platform = ();
    type Output = ();

    async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> {
        if self.broken { Err(ActionError::permanent("read.broken", "it is broken")) } else { Ok(()) }
    }
}

impl Workflow for Wide {
    const NAME: &'static str = "wide";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Taking;
    type State = State;
    type Platform = ();

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Taking => act_each((0..NODES).map(|node| Take { node }))
                .undo_each(|take| GiveBack { node: take.node })
                .record(|me: &mut Self, taken: String| me.taken.push(taken))
                .then(State::Reading),
            State::Reading => {
                act_each((0..NODES).map(|node| Read { node, broken: self.broken == Some(node) }))
                    .nothing_to_undo()
                    .then(State::Done)
            }
            State::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), ..Subject::default() }
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self { broken: None, taken: Vec::new() }]
    }
}

/// Works until the execution has ended, with a pause on the way; answers how it ended and how long its body was.
async fn outcome(broken: Option<u32>, pause: bool) -> (String, usize) {
    let store = Arc::new(Memory::new());
    let clock = Arc::new(ManualClock::starting_at(Timestamp(1_767_225_600_000)));
    let engine = Engine::new(store.clone(), clock.clone(), ()).with_workflow::<Wide>().unwrap();
    let by = Request::by(&Person::new("ada", ["admin"]));
    let id = engine.start(Wide { broken, taken: Vec::new() }, by).await.unwrap().id;
    let order = || Attribution { by: "ada".into(), reason: "a look".into() };
    let mut longest = 0;
    for worked in 0..10_000 {
        let record = engine.record(id).await.unwrap();
        longest = longest.max(record.body.len());
        if !record.open {
            return (record.reason.unwrap_or_default(), longest);
        }
        if pause && worked == 90 {
            engine.deliver(id, Event::PauseRequested(order())).await.unwrap();
        }
        if pause && worked == 98 {
            engine.deliver(id, Event::ResumeRequested(order())).await.unwrap();
        }
        if !engine.work_next().await.unwrap() {
            let next = store.next_due().await.unwrap().unwrap_or(clock.now().after(crate::MINUTE));
            clock.advance_to(next);
        }
    }
    panic!("it does not end: {:?}", engine.record(id).await.unwrap().state);
}

#[tokio::test]
async fn an_execution_with_hundreds_of_slots_is_stored_unchanged_in_both_directions() {
    for (broken, pause, ends) in [
        (None, false, "completed"),
        (None, true, "completed"),
        (Some(150), false, "rolled_back"),
        (Some(3), true, "rolled_back"),
    ] {
        let (ended, longest) = outcome(broken, pause).await;

        assert_eq!(ended, ends, "{broken:?}, paused: {pause}");
        assert!(longest > 2 * INLINE_LIMIT && longest < 256 << 10, "{longest} bytes");
    }
}
