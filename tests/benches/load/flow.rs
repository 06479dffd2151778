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
    /// The times at which earlier results were on disk.
    ready: Mutex<HashMap<ExecutionId, Instant>>,
    /// The times from there to the start of the next step.
    dispatched: Mutex<Vec<Duration>>,
    /// The step that never returns, counted from 0, if any.
    stuck_at: Option<usize>,
    /// The number of executions that reached it.
    stuck: AtomicUsize,
    /// The number of ended executions.
    ended: AtomicUsize,
}

#[derive(Debug)]
enum End {
    Awaited(oneshot::Sender<Instant>),
    Come(Instant),
}

impl Desk {
    /// A variant whose third step never returns.
    pub fn that_hangs() -> Self {
        Self { stuck_at: Some(2), ..Self::default() }
    }

    /// Returns the number of steps that never return.
    pub fn stuck(&self) -> usize {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Returns the number of ended executions.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// Records that an execution has taken these transitions, and that they are on disk.
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

    /// Returns the end time of the execution.
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

    /// Returns all times from a result on disk to the next step since the last call.
    pub fn dispatches(&self) -> Vec<Duration> {
        std::mem::take(&mut self.dispatched.lock().expect("no panic"))
    }

    fn began(&self, id: ExecutionId) {
        if let Some(ready) = self.ready.lock().expect("no panic").remove(&id) {
            self.dispatched.lock().expect("no panic").push(ready.elapsed());
        }
    }
}

/// Returns the number of its step, in 200 bytes.
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
    /// The first step.
    One,
    /// The second step.
    Two,
    /// The third step.
    Three,
    /// The fourth step.
    Four,
    /// The fifth step.
    Five,
    /// The end.
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
    /// Waits for approval.
    Waiting,
    /// After the approval.
    After,
    /// The end.
    Done,
    /// Rejected.
    Refused,
    /// Expired.
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

/// A workflow with a single timer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Alarm {
    /// The time from its start, in milliseconds.
    pub after_ms: u64,
}

/// The state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Rings {
    /// Before the timer.
    Later,
    /// The end.
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
