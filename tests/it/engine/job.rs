//! A workflow whose steps are data, on a scripted platform: for tests of the engine itself.

use engine::{
    Action, ActionError, Call, DAY, Engine, HOUR, MINUTE, ManualClock, Outcome, Person, Plan, Probe, Request,
    RetryPolicy, Seat, Started, Step, Subject, Workflow, act, act_each, approval, await_signal, end, wait,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};
use store::{Memory, Store, Timestamp};
use strum::{IntoStaticStr, VariantArray};
use tokio::sync::Semaphore;

/// The step of one of the numbered states.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Spec {
    /// Parallel actions, each with its undo.
    Do(Vec<String>),
    /// A pivot action.
    Commit(String),
    /// An action that must not be repeated unless it is known not to have happened.
    Once(String),
    /// An approval by two users with role `boss`.
    Ask,
    /// A signal called `go`, within a day.
    Listen,
    /// A timer of an hour.
    Sleep,
}

/// A workflow of consecutive steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub name: String,
    pub steps: Vec<Spec>,
    pub noted: Vec<String>,
    pub guard: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum State {
    Asking,
    First,
    Second,
    Third,
    Fourth,
    Done,
    Declined,
    Lapsed,
}

impl Job {
    pub fn of(steps: impl IntoIterator<Item = Spec>) -> Self {
        Self { name: "job".into(), steps: steps.into_iter().collect(), noted: vec![], guard: None }
    }

    fn at(&self, place: usize, next: State) -> Step<Self> {
        let undo = |name: &String| Undo { name: name.clone(), seen: self.noted.len() };
        let note = |me: &mut Self, name: String| me.noted.push(name);
        match self.steps.get(place).cloned() {
            None => act_each(Vec::<Do>::new()).undo_each(|a: &Do| undo(&a.name)).then(next),
            Some(Spec::Do(names)) => act_each(names.into_iter().map(|name| Do { name }))
                .undo_each(|a: &Do| undo(&a.name))
                .record(note)
                .retry(RetryPolicy { attempts: 3, ..RetryPolicy::default() })
                .attempt_within(MINUTE)
                .within(6 * HOUR)
                .then(next),
            Some(Spec::Commit(name)) => act(Do { name }).forward_only().record(note).then(next),
            Some(Spec::Once(name)) => act(Once { name }).forward_only().then(next),
            Some(Spec::Ask) => approval([Seat::new("boss", 2)])
                .within(DAY)
                .granted(next)
                .refused(State::Declined)
                .expired(State::Lapsed),
            Some(Spec::Listen) => await_signal("go").within(DAY).then(next).expired(State::Lapsed),
            Some(Spec::Sleep) => wait(HOUR).then(next),
        }
    }
}

impl Workflow for Job {
    const NAME: &'static str = "job";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Asking;
    type State = State;
    type Platform = Stage;

    fn step(&self, state: State) -> Step<Self> {
        match state {
            // Policy approves every job, so that the pivots of the specs are authorised.
            State::Asking => engine::when(true, "always", State::First)
                .waived_by(engine::Rule { name: "tests".into(), version: "1".into() })
                .or_when(false, "never", State::Declined)
                .otherwise("late", State::Lapsed),
            State::First => self.at(0, State::Second),
            State::Second => self.at(1, State::Third),
            State::Third => self.at(2, State::Fourth),
            State::Fourth => self.at(3, State::Done),
            State::Done => end(Outcome::Completed),
            State::Declined => end(Outcome::Refused),
            State::Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), name: format!("job/{}", self.name), guard: self.guard.clone() }
    }

    fn plan(&self) -> Plan {
        Plan { title: self.name.clone(), decides: json!({ "name": self.name }), placement: json!(self.noted) }
    }

    fn examples() -> Vec<Self> {
        vec![Self::of([Spec::Do(vec!["a".into()]), Spec::Do(vec!["b".into()]), Spec::Do(vec!["c".into()])])]
    }
}

/// The reply of an action to a call.
#[derive(Clone, Debug)]
pub enum Reply {
    Fail(ActionError),
    /// Takes effect, and never answers.
    Hang,
    Panic,
    /// Waits for a permit of the stage's gate.
    Gate,
}

/// A scripted platform that records every call.
#[derive(Debug)]
pub struct Stage {
    pub log: Mutex<Vec<String>>,
    pub keys: Mutex<Vec<(String, u32)>>,
    pub replies: Mutex<HashMap<String, VecDeque<Reply>>>,
    pub probes: Mutex<HashMap<String, VecDeque<Probe<String>>>>,
    pub gate: Semaphore,
    /// How many probes fail temporarily.
    pub unsure: Mutex<HashMap<String, u32>>,
}

impl Default for Stage {
    fn default() -> Self {
        let (log, keys, replies, probes, unsure) = Default::default();
        Self { log, keys, replies, probes, unsure, gate: Semaphore::new(0) }
    }
}

impl Stage {
    pub fn on(&self, what: &str, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().unwrap().entry(what.into()).or_default().extend(replies);
    }

    /// Makes the next probes of `what` fail temporarily.
    pub fn unsure(&self, what: &str, times: u32) {
        self.unsure.lock().unwrap().insert(what.into(), times);
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub async fn perform(&self, what: String, call: &Call) -> Result<(), ActionError> {
        let reply = self.replies.lock().unwrap().get_mut(&what).and_then(VecDeque::pop_front);
        self.keys.lock().unwrap().push((call.key(), call.attempt));
        match reply {
            Some(Reply::Fail(error)) => return Err(error),
            Some(Reply::Panic) => panic!("told to"),
            Some(Reply::Gate) => self.gate.acquire().await.unwrap().forget(),
            Some(Reply::Hang) => {
                self.log.lock().unwrap().push(what);
                std::future::pending::<()>().await;
                return Ok(());
            }
            None => {}
        }
        self.log.lock().unwrap().push(what);
        Ok(())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Do {
    pub name: String,
}
impl Action for Do {
    const NAME: &'static str = "Do";
    type Platform = Stage;
    type Output = String;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;
    async fn run(&self, on: &Stage, call: &Call) -> Result<String, ActionError> {
        on.perform(format!("do {}", self.name), call).await?;
        Ok(self.name.clone())
    }
    async fn probe(&self, on: &Stage, _: &Call) -> Result<Probe<String>, ActionError> {
        let told = on.probes.lock().unwrap().get_mut(&self.name).and_then(VecDeque::pop_front);
        Ok(told.unwrap_or(Probe::CannotTell))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Undo {
    pub name: String,
    pub seen: usize,
}
impl Action for Undo {
    const NAME: &'static str = "Undo";
    type Platform = Stage;
    type Output = ();
    async fn run(&self, on: &Stage, call: &Call) -> Result<(), ActionError> {
        on.perform(format!("undo {} {}", self.name, self.seen), call).await
    }
}

/// As [`Do`], but not repeatable without a probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Once {
    pub name: String,
}
impl Action for Once {
    const NAME: &'static str = "Once";
    type Platform = Stage;
    type Output = String;
    const REPEAT: engine::Repeat = engine::Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;
    async fn run(&self, on: &Stage, call: &Call) -> Result<String, ActionError> {
        on.perform(format!("do {}", self.name), call).await?;
        Ok(self.name.clone())
    }
    async fn probe(&self, on: &Stage, _: &Call) -> Result<Probe<String>, ActionError> {
        if let Some(times) = on.unsure.lock().unwrap().get_mut(&self.name).filter(|times| **times > 0) {
            *times -= 1;
            return Err(ActionError::pending("stage.busy", engine::SECOND));
        }
        let told = on.probes.lock().unwrap().get_mut(&self.name).and_then(VecDeque::pop_front);
        Ok(told.unwrap_or(Probe::CannotTell))
    }
}

/// An engine on the in-memory store and a manual clock.
pub struct Bench {
    pub engine: Engine<Stage>,
    pub store: Arc<Memory>,
    pub clock: Arc<ManualClock>,
    pub stage: Arc<Stage>,
}

pub fn requester() -> Person {
    Person::new("requester", ["boss"])
}

impl Bench {
    pub fn new() -> Self {
        let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
        let clock = Arc::new(ManualClock::starting_at(Timestamp(1_000_000)));
        let engine = Engine::new(store.clone(), clock.clone(), stage.clone()).with_workflow::<Job>().unwrap();
        Self { engine, store, clock, stage }
    }

    pub async fn start(&self, steps: impl IntoIterator<Item = Spec>) -> Started {
        self.engine.start(Job::of(steps), Request::by(&requester())).await.unwrap()
    }

    /// Works and advances the clock until nothing more happens by itself within `limit`.
    pub async fn settle(&self, limit: std::time::Duration) {
        use engine::Clock as _;
        let end = self.clock.now().after(limit);
        loop {
            self.engine.run_until_idle().await.unwrap();
            match self.store.next_due().await.unwrap() {
                Some(next) if next <= end => self.clock.advance_to(next),
                _ => return,
            }
        }
    }

    /// Leases the due tasks and never completes them.
    pub async fn lose_a_worker(&self) {
        use engine::Clock as _;
        let leases = self.store.lease("dying", self.clock.now(), engine::SECOND, 10).await.unwrap();
        assert_eq!(leases.len(), 1);
        self.clock.advance(2 * engine::SECOND);
    }

    pub async fn stands(&self, started: Started) -> (String, String, Option<String>) {
        let record = self.engine.record(started.id).await.unwrap();
        (record.state, record.phase, record.reason)
    }

    pub async fn events(&self, started: Started) -> Vec<String> {
        self.engine.journal(started.id).await.unwrap().into_iter().map(|entry| entry.event).collect()
    }
}

pub fn does(names: &[&str]) -> Spec {
    Spec::Do(names.iter().map(|name| (*name).to_owned()).collect())
}

pub fn transient() -> Reply {
    Reply::Fail(ActionError::transient("stage.busy", "told to"))
}

pub fn permanent() -> Reply {
    Reply::Fail(ActionError::permanent("stage.broken", "told to"))
}
