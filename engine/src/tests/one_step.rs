//! A workflow with one step, and a platform that follows a script: for tests of attempts, limits and timeouts.

use crate::{
    Action, ActionError, Call, Clock as _, Engine, HOUR, Limit, ManualClock, Outcome, Person, Plan, Probe,
    Repeat, Request, RetryPolicy, Step, Subject, WhilePending, Workflow, act, end,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{ExecutionId, Memory, Store as _, Timestamp};
use strum::{IntoStaticStr, VariantArray};
use tokio::sync::Semaphore;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OneStep {
    pub(super) name: String,
    pub(super) tenant: String,
    pub(super) keys: Vec<String>,
    pub(super) keeps_places: bool,
    pub(super) retry: RetryPolicy,
    pub(super) attempt_within: Duration,
    pub(super) heartbeat: Option<Duration>,
    pub(super) within: Duration,
}

impl OneStep {
    pub(super) fn of(tenant: &str, name: &str) -> Self {
        Self {
            name: name.into(),
            tenant: tenant.into(),
            keys: vec!["cluster/eu-1".into()],
            keeps_places: false,
            retry: RetryPolicy::default(),
            attempt_within: HOUR,
            heartbeat: None,
            within: 24 * HOUR,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub(super) enum State {
    Digging,
    Ending,
    Done,
}

impl Workflow for OneStep {
    const NAME: &'static str = "toil";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Digging;
    type State = State;
    type Platform = FakePlatform;

    fn step(&self, state: State) -> Step<Self> {
        let places = if self.keeps_places { WhilePending::KeepPermits } else { WhilePending::ReleasePermits };
        match state {
            State::Digging => {
                let step = act(FakeAction { name: self.name.clone(), keys: self.keys.clone() })
                    .undo(Fill { name: self.name.clone(), keys: self.keys.clone() })
                    .retry(self.retry.clone())
                    .attempt_within(self.attempt_within)
                    .within(self.within)
                    .limited_by(["yard/all"])
                    .while_pending(places);
                match self.heartbeat {
                    Some(limit) => step.heartbeat(limit).then(State::Ending),
                    None => step.then(State::Ending),
                }
            }
            State::Ending => act(Fail { name: self.name.clone() }).nothing_to_undo().then(State::Done),
            State::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: self.tenant.clone(), name: format!("toil/{}", self.name), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self::of("acme", "example")]
    }
}

/// The behaviour of an attempt.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Fail(ActionError),
    /// Reports this, then does the rest.
    Say(&'static str),
    /// Waits for this long, then does the rest.
    Take(Duration),
    /// Waits for a permit of the gate.
    Gate,
    Hang,
}

#[derive(Default)]
pub(super) struct FakePlatform {
    /// The attempts begun: name, number, and the last note of an earlier attempt.
    pub(super) log: Mutex<Vec<(String, u32, Option<String>)>>,
    pub(super) replies: Mutex<BTreeMap<String, VecDeque<Reply>>>,
    pub(super) gate: Option<Semaphore>,
    pub(super) inside: AtomicUsize,
    pub(super) most_inside: AtomicUsize,
    pub(super) probes: AtomicUsize,
}

struct Inside<'a>(&'a AtomicUsize);
impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakePlatform {
    pub(super) fn on(&self, what: &str, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().unwrap().entry(what.into()).or_default().extend(replies);
    }

    pub(super) fn begun(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(|(name, ..)| name.clone()).collect()
    }

    async fn perform(&self, what: &str, call: &Call) -> Result<(), ActionError> {
        self.log.lock().unwrap().push((what.into(), call.attempt, call.last_heartbeat.clone()));
        let now = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        let _out = Inside(&self.inside);
        self.most_inside.fetch_max(now, Ordering::SeqCst);
        loop {
            let reply = self.replies.lock().unwrap().get_mut(what).and_then(VecDeque::pop_front);
            match reply {
                Some(Reply::Say(note)) => {
                    call.heartbeat(note);
                    continue;
                }
                Some(Reply::Take(span)) => {
                    tokio::time::sleep(span).await;
                    continue;
                }
                Some(Reply::Fail(error)) => return Err(error),
                Some(Reply::Gate) => match &self.gate {
                    Some(gate) => gate.acquire().await.unwrap().forget(),
                    None => std::future::pending().await,
                },
                Some(Reply::Hang) => std::future::pending().await,
                None => {}
            }
            return Ok(());
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FakeAction {
    name: String,
    keys: Vec<String>,
}
impl Action for FakeAction {
    const NAME: &'static str = "Dig";
    type Platform = FakePlatform;
    type Output = ();
    const RESULT: crate::ResultSource = crate::ResultSource::Deed;
    // It must not be repeated without a probe, so every delivery matters.
    const REPEAT: Repeat = Repeat::AfterProbe;

    async fn run(&self, on: &FakePlatform, call: &Call) -> Result<(), ActionError> {
        on.perform(&self.name, call).await
    }

    fn limited_by(&self) -> Vec<String> {
        self.keys.clone()
    }

    async fn probe(&self, on: &FakePlatform, _: &Call) -> Result<Probe<()>, ActionError> {
        on.probes.fetch_add(1, Ordering::SeqCst);
        Ok(Probe::NotDone)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fill {
    name: String,
    keys: Vec<String>,
}
impl Action for Fill {
    const NAME: &'static str = "Fill";
    type Platform = FakePlatform;
    type Output = ();
    const RESULT: crate::ResultSource = crate::ResultSource::Deed;

    async fn run(&self, on: &FakePlatform, call: &Call) -> Result<(), ActionError> {
        on.perform(&format!("undo {}", self.name), call).await
    }

    fn limited_by(&self) -> Vec<String> {
        self.keys.clone()
    }
}

/// Fails permanently on command, so that earlier actions are undone.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fail {
    name: String,
}
impl Action for Fail {
    const NAME: &'static str = "Fail";
    type Platform = FakePlatform;
    type Output = ();

    async fn run(&self, on: &FakePlatform, _: &Call) -> Result<(), ActionError> {
        let reply =
            on.replies.lock().unwrap().get_mut(&format!("end {}", self.name)).and_then(VecDeque::pop_front);
        match reply {
            Some(Reply::Fail(error)) => Err(error),
            Some(Reply::Say(_) | Reply::Take(_) | Reply::Gate | Reply::Hang) | None => Ok(()),
        }
    }
}

/// An engine on the in-memory store and a manual clock.
pub(super) struct Bench {
    pub(super) engine: Engine<FakePlatform>,
    pub(super) store: Arc<Memory>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) platform: Arc<FakePlatform>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let (store, clock) =
            (Arc::new(Memory::new()), Arc::new(ManualClock::starting_at(Timestamp(1_000_000))));
        let yard = Arc::new(FakePlatform { gate: Some(Semaphore::new(0)), ..FakePlatform::default() });
        let engine =
            Engine::new(store.clone(), clock.clone(), yard.clone()).with_workflow::<OneStep>().unwrap();
        Self { engine, store, clock, platform: yard }
    }

    /// Returns another process on the same store, without any other memory.
    pub(super) fn another(&self) -> Engine<FakePlatform> {
        Engine::new(self.store.clone(), self.clock.clone(), self.platform.clone())
            .with_workflow::<OneStep>()
            .unwrap()
    }

    pub(super) async fn start(&self, toil: OneStep) -> ExecutionId {
        let request = Request::by(&Person::new("ada", ["ops"]));
        self.engine.start(toil, request).await.unwrap().id
    }

    pub(super) async fn limit(&self, limit: Limit) {
        self.engine.set_limit(limit).await.unwrap().unwrap();
    }

    pub(super) async fn at_most(&self, key: &str, places: u32) {
        self.limit(Limit { concurrency: Some(places), ..Limit::for_key(key) }).await;
    }

    /// Runs due tasks in a background task until `n` attempts are running.
    pub(super) async fn begin(&self, n: usize) -> tokio::task::JoinHandle<()> {
        let engine = self.engine.clone();
        let work = tokio::spawn(async move {
            engine.work_next().await.unwrap();
        });
        self.until(|yard| yard.inside.load(Ordering::SeqCst) == n).await;
        work
    }

    pub(super) async fn until(&self, holds: impl Fn(&FakePlatform) -> bool) {
        for _ in 0..10_000 {
            if holds(&self.platform) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("the condition was never met: {:?}", self.platform.log.lock().unwrap());
    }

    /// Runs due tasks and lets time pass until no more can happen within `span`.
    pub(super) async fn settle(&self, span: Duration) {
        let end = self.clock.now().after(span);
        loop {
            self.engine.run_until_idle().await.unwrap();
            match self.store.next_due().await.unwrap() {
                Some(next) if next <= end => self.clock.advance_to(next),
                Some(_) | None => return self.clock.advance_to(end),
            }
        }
    }

    pub(super) async fn stands(&self, id: ExecutionId) -> String {
        let record = self.engine.record(id).await.unwrap();
        record.reason.unwrap_or(record.phase)
    }

    /// Returns the cause of its compensation, or the last error of its slot.
    pub(super) async fn cause(&self, id: ExecutionId) -> ActionError {
        let (_, shown) = self.engine.execution(id).await.unwrap();
        let paths = ["/phase/finished/cause", "/phase/compensating/cause", "/slots/0/last"];
        let found = paths.iter().find_map(|path| shown.body.pointer(path).filter(|cause| !cause.is_null()));
        serde_json::from_value(found.cloned().unwrap()).unwrap()
    }
}
