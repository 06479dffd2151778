//! Which waits a signal ends.

use crate::{
    DAY, Engine, Error, Event, HOUR, ManualClock, Outcome, Person, Plan, Refusal, Request, Step, Subject,
    Workflow, await_signal, end, wait,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::{ExecutionId, Memory, Timestamp};
use strum::{IntoStaticStr, VariantArray};

/// A window, a pause, an extension of the window, and a wait that an earlier signal may end.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Export;

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
enum At {
    Window,
    Pause,
    Extension,
    Lookout,
    Done,
}

impl Workflow for Export {
    const NAME: &'static str = "export";
    const SCHEMA: u32 = 1;
    const INITIAL: At = At::Window;
    type State = At;
    type Platform = ();

    fn step(&self, state: At) -> Step<Self> {
        match state {
            At::Window => {
                await_signal("confirmed").forget_earlier().within(DAY).then(At::Pause).expired(At::Pause)
            }
            At::Pause => wait(HOUR).then(At::Extension),
            At::Extension => {
                await_signal("confirmed").forget_earlier().within(DAY).then(At::Lookout).expired(At::Lookout)
            }
            At::Lookout => await_signal("freed").within(DAY).then(At::Done).expired(At::Done),
            At::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { name: "export".into(), ..Subject::default() }
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self]
    }
}

struct Bench {
    engine: Engine<()>,
    clock: Arc<ManualClock>,
    id: ExecutionId,
}

impl Bench {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp(1_000_000)));
        let engine =
            Engine::new(Arc::new(Memory::new()), clock.clone(), ()).with_workflow::<Export>().unwrap();
        let id = engine.start(Export, Request::by(&Person::new("ada", ["ops"]))).await.unwrap().id;
        let bench = Self { engine, clock, id };
        bench.settle().await;
        bench
    }

    async fn settle(&self) {
        self.engine.run_until_idle().await.unwrap();
    }

    async fn state(&self) -> String {
        self.engine.record(self.id).await.unwrap().state
    }
}

#[tokio::test]
async fn a_second_confirmation_of_one_wait_does_not_end_a_later_wait_for_the_same_signal() {
    let bench = Bench::new().await;

    bench.engine.signal(bench.id, "confirmed").await.unwrap();
    bench.engine.signal(bench.id, "confirmed").await.unwrap();
    bench.settle().await;
    assert_eq!(bench.state().await, "Pause");
    bench.clock.advance(HOUR);
    bench.settle().await;

    assert_eq!(bench.state().await, "Extension", "the extension waits for a separate confirmation");
    bench.engine.signal(bench.id, "confirmed").await.unwrap();
    bench.settle().await;
    assert_eq!(bench.state().await, "Lookout");
}

#[tokio::test]
async fn a_signal_of_another_execution_that_is_ahead_of_its_wait_is_not_lost() {
    let bench = Bench::new().await;

    bench.engine.signal(bench.id, "freed").await.unwrap();
    bench.engine.signal(bench.id, "confirmed").await.unwrap();
    bench.settle().await;
    bench.clock.advance(HOUR);
    bench.settle().await;
    bench.engine.signal(bench.id, "confirmed").await.unwrap();
    bench.settle().await;

    assert_eq!(bench.state().await, "Done");
}

#[tokio::test]
async fn a_signal_from_outside_that_is_not_awaited_is_refused_and_changes_nothing() {
    let bench = Bench::new().await;
    let before = bench.engine.record(bench.id).await.unwrap();

    let refused = bench.engine.signal_awaited(bench.id, "freed", None).await;
    let Err(Error::Refused(Refusal::SignalNotAwaited { awaited, state, .. })) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!((*awaited, state.as_str()), (Some("confirmed"), "Window"));
    assert_eq!(bench.engine.record(bench.id).await.unwrap(), before);

    bench.engine.signal_awaited(bench.id, "confirmed", Some(before.revision)).await.unwrap();
    let refused = bench.engine.signal_awaited(bench.id, "confirmed", None).await;
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::SignalNotAwaited { awaited: None, .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_paused_execution_takes_the_signal_that_its_state_awaits() {
    let bench = Bench::new().await;
    let order = || crate::Attribution { by: "ada".into(), reason: "a look".into() };
    bench.engine.deliver(bench.id, Event::PauseRequested(order())).await.unwrap();

    bench.engine.signal_awaited(bench.id, "confirmed", None).await.unwrap();
    assert_eq!(bench.state().await, "Window");
    bench.engine.deliver(bench.id, Event::ResumeRequested(order())).await.unwrap();

    assert_eq!(bench.state().await, "Pause");
}
