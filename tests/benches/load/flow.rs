//! The measured workflows: five steps one after the other, each with 200 bytes of JSON as its result; a step, an approval, a step; and
//! a short timer.

use engine::{
    Action, ActionError, Call, DAY, Outcome, Plan, Seat, Step, Subject, Workflow, act, approval, end, wait,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use store::ExecutionId;
use strum::{IntoStaticStr, VariantArray};
use tokio::sync::oneshot;

/// The waiters for each execution, and the earliest time of each step.
#[derive(Debug, Default)]
pub struct Desk {
    ends: Mutex<HashMap<ExecutionId, End>>,
    /// When the result before was on disk.
    ready: Mutex<HashMap<ExecutionId, Instant>>,
    /// From there to the next step's beginning.
    dispatched: Mutex<Vec<Duration>>,
    /// The step that never returns, counted from 0, if there is one.
    stuck_at: Option<usize>,
    /// How many have come to it.
    stuck: AtomicUsize,
    /// How many have ended.
    ended: AtomicUsize,
}

#[derive(Debug)]
enum End {
    Awaited(oneshot::Sender<Instant>),
    Come(Instant),
}

impl Desk {
    /// One where the third step never returns.
    pub fn that_hangs() -> Self {
        Self { stuck_at: Some(2), ..Self::default() }
    }

    /// How many steps never return.
    pub fn stuck(&self) -> usize {
        self.stuck.load(Ordering::Relaxed)
    }

    /// How many have ended so far.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// An execution has taken these ways, and that is on disk.
    pub fn moved(&self, id: ExecutionId, edges: &[engine::Edge]) {
        let now = Instant::now();
        if !edges.iter().any(|edge| edge.to == "Done") {
            self.ready.lock().expect("no panic").insert(id, now);
            return;
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.ready.lock().expect("no panic").remove(&id);
        let mut ends = self.ends.lock().expect("no panic");
        match ends.remove(&id) {
            Some(End::Awaited(who)) => drop(who.send(now)),
            Some(End::Come(_)) => {}
            None => drop(ends.insert(id, End::Come(now))),
        }
    }

    /// When the execution has ended.
    pub async fn end(&self, id: ExecutionId) -> Instant {
        let waiting = {
            let mut ends = self.ends.lock().expect("no panic");
            if let Some(End::Come(at)) = ends.remove(&id) {
                return at;
            }
            let (send, receive) = oneshot::channel();
            ends.insert(id, End::Awaited(send));
            receive
        };
        waiting.await.expect("it ends")
    }

    /// Every time from a result on disk to the next step since the last call.
    pub fn dispatches(&self) -> Vec<Duration> {
        std::mem::take(&mut self.dispatched.lock().expect("no panic"))
    }

    fn began(&self, id: ExecutionId) {
        if let Some(ready) = self.ready.lock().expect("no panic").remove(&id) {
            self.dispatched.lock().expect("no panic").push(ready.elapsed());
        }
    }
}

/// Says the number of its step, in 200 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    step: usize,
}

impl Action for Work {
    const NAME: &'static str = "Work";
    type Platform = Desk;
    type Output = String;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;
    async fn run(&self, desk: &Desk, call: &Call) -> Result<String, ActionError> {
        desk.began(call.execution);
        if desk.stuck_at == Some(self.step) {
            desk.stuck.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        Ok(format!("{:0>198}", self.step))
    }
}

/// Five steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct W5 {
    results: Vec<String>,
}

/// The state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Walk {
    /// Its steps.
    One,
    /// The second.
    Two,
    /// The third.
    Three,
    /// The fourth.
    Four,
    /// The fifth.
    Five,
    /// Its end.
    Done,
}

impl Workflow for W5 {
    const NAME: &'static str = "w5";
    const SCHEMA: u32 = 1;
    const INITIAL: Walk = Walk::One;
    type State = Walk;
    type Platform = Desk;

    fn step(&self, state: Walk) -> Step<Self> {
        let next = match state {
            Walk::One => Walk::Two,
            Walk::Two => Walk::Three,
            Walk::Three => Walk::Four,
            Walk::Four => Walk::Five,
            Walk::Five => Walk::Done,
            Walk::Done => return end(Outcome::Completed),
        };
        act(Work { step: self.results.len() })
            .nothing_to_undo()
            .record(|me: &mut Self, said| me.results.push(said))
            .then(next)
    }

    fn subject(&self) -> Subject {
        Subject { tenant: String::new(), name: "five steps".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "five steps".into(), decides: json!({}), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self::default()]
    }
}

/// A step, an approval, a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct A1 {
    results: Vec<String>,
}

/// The state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Asked {
    /// Before the approval.
    Before,
    /// It waits for a person.
    Waiting,
    /// After it was agreed to.
    After,
    /// Its end.
    Done,
    /// No.
    Refused,
    /// Nobody came.
    Expired,
}

impl Workflow for A1 {
    const NAME: &'static str = "a1";
    const SCHEMA: u32 = 1;
    const INITIAL: Asked = Asked::Before;
    type State = Asked;
    type Platform = Desk;

    fn step(&self, state: Asked) -> Step<Self> {
        let work = |next| {
            act(Work { step: self.results.len() })
                .nothing_to_undo()
                .record(|me: &mut Self, said| me.results.push(said))
                .then(next)
        };
        match state {
            Asked::Before => work(Asked::Waiting),
            Asked::Waiting => approval([Seat::new("editor", 1)])
                .within(DAY)
                .granted(Asked::After)
                .refused(Asked::Refused)
                .expired(Asked::Expired),
            Asked::After => work(Asked::Done),
            Asked::Done => end(Outcome::Completed),
            Asked::Refused => end(Outcome::Refused),
            Asked::Expired => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: String::new(), name: "a question".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "a question".into(), decides: json!({}), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self::default()]
    }
}

/// A wait until a moment, which is all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Alarm {
    /// How long from its beginning, in milliseconds.
    pub after_ms: u64,
}

/// The state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Rings {
    /// Not yet.
    Later,
    /// Its end.
    Done,
}

impl Workflow for Alarm {
    const NAME: &'static str = "alarm";
    const SCHEMA: u32 = 1;
    const INITIAL: Rings = Rings::Later;
    type State = Rings;
    type Platform = Desk;

    fn step(&self, state: Rings) -> Step<Self> {
        match state {
            Rings::Later => wait(Duration::from_millis(self.after_ms)).then(Rings::Done),
            Rings::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: String::new(), name: "an alarm".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "an alarm".into(), decides: json!({}), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { after_ms: 1_000 }]
    }
}
