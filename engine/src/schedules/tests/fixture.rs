//! A scheduled workflow, and an engine with a manual clock.

use super::at;
use crate::{
    Action, ActionError, Call, DAY, Engine, ManualClock, Occurrence, OccurrenceFate as Fate, Options,
    Outcome, Plan, Schedule, ScheduleStatus, Step, Subject, Target, Workflow, act, await_signal, end, when,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use store::{ExecutionId, Memory, Record, Timestamp};

/// Runs until it receives the signal to finish.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Errand {
    /// True to fail at the end.
    #[serde(default)]
    pub(super) fails: bool,
    /// True if it cannot be undone, so that a cancel parks it.
    #[serde(default)]
    pub(super) sticks: bool,
    /// The guard that it holds while it is open.
    #[serde(default)]
    pub(super) guard: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
pub(super) enum State {
    Preparing,
    Working,
    Ending,
    Done,
    Broken,
    Forgotten,
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Preparing;
    type State = State;
    type Platform = ();

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Preparing => act(Prepare).undo(TakeBack { sticks: self.sticks }).then(State::Working),
            State::Working => {
                await_signal("finished").within(900 * DAY).then(State::Ending).expired(State::Forgotten)
            }
            State::Ending => {
                when(self.fails, "it fails", State::Broken).otherwise("it does not", State::Done)
            }
            State::Done => end(Outcome::Completed),
            State::Broken => end(Outcome::RolledBack),
            State::Forgotten => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: String::new(), name: "errand".into(), guard: self.guard.clone() }
    }

    fn plan(&self) -> Plan {
        Plan { title: "run an errand".into(), decides: json!(null), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self::default(), Self { fails: true, ..Self::default() }]
    }
}

const STICKS: &str = "errand.sticks";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Prepare;
impl Action for Prepare {
    const NAME: &'static str = "Prepare";
    type Platform = ();
    type Output = ();
    async fn run(&self, (): &(), _: &Call) -> Result<(), ActionError> {
        Ok(())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TakeBack {
    sticks: bool,
}
impl Action for TakeBack {
    const NAME: &'static str = "TakeBack";
    type Platform = ();
    type Output = ();
    async fn run(&self, (): &(), _: &Call) -> Result<(), ActionError> {
        if self.sticks { Err(ActionError::permanent(STICKS, "it cannot be undone")) } else { Ok(()) }
    }
}

/// An engine, its store and its clock.
pub(super) struct Bench {
    pub(super) engine: Engine<()>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) store: Arc<Memory>,
}

pub(super) fn hourly(data: serde_json::Value) -> Schedule {
    Schedule::new("hourly", "0 * * * *", "UTC", Target::Start { workflow: "errand".into(), data })
}

impl Bench {
    pub(super) fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at(at("2026-11-21T00:30:00Z")));
        let store = Arc::new(Memory::new());
        let bench = Self { engine: Engine::new(store.clone(), clock.clone(), ()), clock, store };
        let engine = bench.beside();
        Self { engine, ..bench }
    }

    /// Returns another engine on the same store.
    pub(super) fn beside(&self) -> Engine<()> {
        let engine =
            Engine::new(self.store.clone(), self.clock.clone(), ()).with_workflow::<Errand>().unwrap();
        engine.with_options(Options { holder: "another".into(), ..Options::default() })
    }

    /// Sets a schedule from now on.
    pub(super) async fn with(schedule: Schedule) -> Self {
        let bench = Self::new();
        bench.set(schedule).await;
        bench
    }

    pub(super) async fn set(&self, schedule: Schedule) -> Schedule {
        self.engine.set_schedule(schedule, "ada", None).await.unwrap()
    }

    /// Runs the schedule and all due tasks. Returns the started executions.
    pub(super) async fn look(&self) -> Vec<Occurrence> {
        let kept = self.engine.run_schedule("hourly", &self.engine).await.unwrap();
        self.engine.run_until_idle().await.unwrap();
        kept.started
    }

    pub(super) async fn pass(&self, span: Duration) -> Vec<Occurrence> {
        self.clock.advance(span);
        self.look().await
    }

    pub(super) async fn finish(&self, id: ExecutionId) {
        self.engine.signal(id, "finished").await.unwrap();
        self.engine.run_until_idle().await.unwrap();
    }

    pub(super) async fn standing(&self) -> ScheduleStatus {
        self.engine.schedule_status("hourly").await.unwrap().unwrap()
    }

    pub(super) async fn rows(&self) -> Vec<Occurrence> {
        use store::Store as _;
        let found = self.store.documents("occurrences", "hourly/", None, 10_000).await.unwrap();
        found.items.iter().map(|found| serde_json::from_slice(&found.body).unwrap()).collect()
    }

    pub(super) async fn fates(&self) -> Vec<Fate> {
        self.rows().await.iter().map(|row| row.fate).collect()
    }

    pub(super) async fn executions(&self) -> Vec<Record> {
        self.engine.list(&store::Filter::default(), None, 1_000).await.unwrap().items
    }

    pub(super) async fn record(&self, id: Option<ExecutionId>) -> Record {
        self.engine.record(id.unwrap()).await.unwrap()
    }
}

/// Returns a moment within the day of the bench.
pub(super) fn oclock(hour: u64) -> Timestamp {
    at("2026-11-21T00:00:00Z").after(Duration::from_secs(hour * 3_600))
}
