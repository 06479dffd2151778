//! An execution that missed its promised end.

use super::job::Stage;
use engine::{
    Attribution, Clock, DAY, Engine, HOUR, ManualClock, Outcome, Person, Plan, Request, Step, Subject,
    Workflow, await_signal, end,
};
use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use store::{ExecutionId, Filter, Memory, Timestamp};

const BEGIN: Timestamp = Timestamp(1_767_225_600_000);

/// Waits for a signal, and promises a time for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Errand {
    by: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum At {
    Waiting,
    Done,
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    const SCHEMA: u32 = 1;
    const INITIAL: At = At::Waiting;
    type State = At;
    type Platform = Stage;

    fn step(&self, state: At) -> Step<Self> {
        match state {
            At::Waiting => await_signal("done").within(30 * DAY).then(At::Done).expired(At::Done),
            At::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { name: "errand".into(), ..Subject::default() }
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn promised_by(&self) -> Option<Timestamp> {
        self.by
    }

    fn examples() -> Vec<Self> {
        vec![Self { by: None }]
    }
}

struct Bench {
    engine: Engine<Stage>,
    clock: Arc<ManualClock>,
}

impl Bench {
    async fn with(by: Option<Duration>) -> (Self, ExecutionId) {
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let engine = Engine::new(Arc::new(Memory::new()), clock.clone(), Stage::default());
        let bench = Self { engine: engine.with_workflow::<Errand>().unwrap(), clock };
        let errand = Errand { by: by.map(|by| BEGIN.after(by)) };
        let asked = Request::by(&Person::new("rita", ["clerk"]));
        let id = bench.engine.start(errand, asked).await.unwrap().id;
        bench.pass(Duration::ZERO).await;
        (bench, id)
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        self.engine.run_until_idle().await.unwrap();
    }

    async fn late(&self) -> Vec<ExecutionId> {
        let filter = Filter { reason: Some("overdue".into()), ..Filter::default() };
        let page = self.engine.list(&filter, None, 10).await.unwrap();
        page.items.into_iter().map(|record| record.id).collect()
    }
}

#[tokio::test]
async fn an_overdue_execution_is_listed_from_its_promised_time_until_it_ends() {
    let (bench, id) = Bench::with(Some(HOUR)).await;
    bench.pass(HOUR - Duration::from_millis(1)).await;
    assert_eq!(bench.late().await, []);

    bench.pass(Duration::from_millis(1)).await;

    assert_eq!(bench.late().await, [id]);
    let record = bench.engine.record(id).await.unwrap();
    assert_eq!(
        (record.phase.as_str(), record.state.as_str()),
        ("forward", "Waiting"),
        "it continues as before"
    );
    let journal = bench.engine.journal(id).await.unwrap();
    assert!(journal.iter().any(|entry| entry.event == "overdue"), "and its history has the time");

    bench.engine.signal(id, "done").await.unwrap();
    bench.pass(HOUR).await;
    let record = bench.engine.record(id).await.unwrap();
    assert_eq!((record.phase.as_str(), record.reason.as_deref()), ("finished", Some("completed")));
    assert_eq!(bench.late().await, []);
}

#[tokio::test]
async fn no_alarm_is_sent_for_a_promise_that_was_kept_or_never_made() {
    for by in [Some(HOUR), None] {
        let (bench, id) = Bench::with(by).await;
        bench.engine.signal(id, "done").await.unwrap();
        bench.pass(2 * HOUR).await;
        assert_eq!(bench.late().await, []);
        let next = bench.engine.store().next_due().await.unwrap();
        assert_eq!(next, None, "the alarm is removed");
    }
}

#[tokio::test]
async fn a_promised_time_in_the_past_is_missed_at_once_also_by_a_paused_execution() {
    let (bench, id) = Bench::with(Some(Duration::ZERO)).await;
    assert_eq!(bench.late().await, [id]);

    let (bench, id) = Bench::with(Some(HOUR)).await;
    let order = Attribution { by: "olga".into(), reason: "wait".into() };
    bench.engine.deliver(id, engine::Event::PauseRequested(order)).await.unwrap();
    bench.pass(HOUR).await;
    assert_eq!(bench.late().await, [id]);
}

/// Shows scripted times, and can be set back.
struct Wall(Mutex<Vec<Timestamp>>, ManualClock);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let mut shown = self.0.lock().unwrap();
        if shown.len() > 1 { shown.pop().unwrap() } else { shown[0] }
    }

    fn sleep_until(&self, at: Timestamp) -> engine::BoxFuture<'_, ()> {
        self.1.sleep_until(at)
    }

    fn entropy(&self) -> [u8; 10] {
        self.1.entropy()
    }
}

#[tokio::test]
async fn an_alarm_that_fired_before_the_clock_was_set_back_fires_again() {
    let clock = Arc::new(Wall(Mutex::new(vec![BEGIN]), ManualClock::starting_at(BEGIN)));
    let engine = Engine::new(Arc::new(Memory::new()), clock.clone(), Stage::default());
    let engine = engine.with_workflow::<Errand>().unwrap();
    let errand = Errand { by: Some(BEGIN.after(HOUR)) };
    let id = engine.start(errand, Request::by(&Person::new("rita", ["clerk"]))).await.unwrap().id;
    engine.run_until_idle().await.unwrap();

    // Due at the first read of the clock, and not at later ones.
    *clock.0.lock().unwrap() = vec![BEGIN.after(HOUR / 2), BEGIN.after(HOUR)];
    engine.work_next().await.unwrap();
    assert_eq!(engine.record(id).await.unwrap().reason, None);
    assert_eq!(engine.store().next_due().await.unwrap(), Some(BEGIN.after(HOUR)));

    *clock.0.lock().unwrap() = vec![BEGIN.after(HOUR)];
    engine.run_until_idle().await.unwrap();
    assert_eq!(engine.record(id).await.unwrap().reason.as_deref(), Some("overdue"));
}
