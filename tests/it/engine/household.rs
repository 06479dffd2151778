//! A workflow that starts jobs and waits for them, and one whose children use its authority.

use super::job::{Bench, Do, Job, Spec, Stage, Undo};
use engine::{
    ChildEnd, DAY, HOUR, Outcome, Plan, Request, Rule, Seat, Started, Step, Subject, Workflow, act, approval,
    children, end, when,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use strum::{IntoStaticStr, VariantArray};

/// How a household handles the ends of its jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Each must be completed.
    #[default]
    Strict,
    /// Any end is accepted.
    Lenient,
    /// It is past its pivot, and never cancels a job.
    Forward,
}

/// Runs an action, then all jobs, then another action.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct House {
    pub jobs: Vec<Job>,
    pub way: Way,
    pub shut: bool,
    pub ends: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum State {
    Asking,
    Cleaning,
    Choosing,
    Strictly,
    Leniently,
    Onward,
    Locking,
    Done,
    Late,
}

impl Workflow for House {
    const NAME: &'static str = "house";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Asking;
    type State = State;
    type Platform = Stage;

    fn step(&self, state: State) -> Step<Self> {
        let jobs = || children(self.jobs.clone());
        let note = |me: &mut Self, end: ChildEnd<Vec<String>>| {
            let outcome: &str = end.outcome.into();
            me.ends.push(format!("{outcome} in {}: {}", end.state, end.data.join(" ")));
        };
        match state {
            State::Asking => when(!self.shut, "open", State::Cleaning)
                .waived_by(Rule { name: "tests".into(), version: "1".into() })
                .otherwise("shut", State::Late),
            State::Cleaning => act(Do { name: "clean".into() })
                .undo(Undo { name: "clean".into(), seen: 0 })
                .then(State::Choosing),
            State::Choosing => when(self.way == Way::Strict, "strict", State::Strictly)
                .or_when(self.way == Way::Lenient, "lenient", State::Leniently)
                .otherwise("forward", State::Onward),
            State::Strictly => jobs()
                .map_result(|job| job.noted.clone())
                .cancel_on_undo()
                .max_concurrent(2)
                .within(2 * DAY)
                .record(note)
                .on_failure("child.refused", State::Late)
                .then(State::Locking),
            State::Leniently => jobs()
                .map_result(|job| job.noted.clone())
                .accept_any_outcome()
                .cancel_on_undo()
                .within(2 * DAY)
                .record(note)
                .then(State::Locking),
            State::Onward => jobs()
                .map_result(|job| job.noted.clone())
                .forward_only()
                .within(2 * DAY)
                .record(note)
                .then(State::Locking),
            State::Locking => {
                act(Do { name: "lock".into() }).nothing_to_undo().within(HOUR).then(State::Done)
            }
            State::Done => end(Outcome::Completed),
            State::Late => end(Outcome::Rejected),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), name: "house/one".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "house".into(), decides: json!({ "jobs": self.jobs.len() }), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { jobs: Job::examples(), ..Self::default() }]
    }
}

/// Erases one shelf, on the authority of the execution that closes the shop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Erasure {
    pub shelf: String,
    pub method: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Erasing {
    Erasing,
    Erased,
}

impl Workflow for Erasure {
    const NAME: &'static str = "erasure";
    const SCHEMA: u32 = 1;
    const INITIAL: Erasing = Erasing::Erasing;
    const AUTHORISED_BY_PARENT: bool = true;
    type State = Erasing;
    type Platform = Stage;

    fn step(&self, state: Erasing) -> Step<Self> {
        let name = format!("erase {}", self.shelf);
        match state {
            Erasing::Erasing => act(Do { name }).forward_only().destroys().then(Erasing::Erased),
            Erasing::Erased => end(Outcome::Completed),
        }
    }
    fn subject(&self) -> Subject {
        Subject { name: format!("shelf/{}", self.shelf), ..Subject::default() }
    }
    fn plan(&self) -> Plan {
        let decides = json!({ "shelf": self.shelf, "method": self.method });
        Plan { title: format!("erase {}", self.shelf), decides, placement: json!(null) }
    }
    fn examples() -> Vec<Self> {
        vec![Self { shelf: "s".into(), method: "fire".into() }]
    }
}

/// Closes a shop whose shelves are erased after two approvals.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Closing {
    pub shelves: Vec<String>,
    pub method: String,
    pub lies: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum ClosingState {
    Asking,
    Erasing,
    Closed,
    Open,
}

impl Workflow for Closing {
    const NAME: &'static str = "closing";
    const SCHEMA: u32 = 1;
    const INITIAL: ClosingState = ClosingState::Asking;
    type State = ClosingState;
    type Platform = Stage;

    fn step(&self, state: ClosingState) -> Step<Self> {
        let erasure = |shelf: &String| {
            let method = if self.lies { "water" } else { self.method.as_str() };
            Erasure { shelf: shelf.clone(), method: method.into() }
        };
        match state {
            ClosingState::Asking => approval([Seat::new("boss", 2)])
                .within(DAY)
                .granted(ClosingState::Erasing)
                .refused(ClosingState::Open)
                .expired(ClosingState::Open),
            ClosingState::Erasing => {
                children(self.shelves.iter().map(erasure)).forward_only().then(ClosingState::Closed)
            }
            ClosingState::Closed => end(Outcome::Completed),
            ClosingState::Open => end(Outcome::Refused),
        }
    }
    fn subject(&self) -> Subject {
        Subject { name: "shop".into(), ..Subject::default() }
    }
    fn plan(&self) -> Plan {
        let shelf = |shelf: &String| json!({ "shelf": shelf, "method": self.method });
        let shelves: Vec<_> = self.shelves.iter().map(shelf).collect();
        Plan { title: "close".into(), decides: json!({ "erase": shelves }), placement: json!(null) }
    }
    fn examples() -> Vec<Self> {
        vec![Self { shelves: vec!["s".into()], method: "fire".into(), lies: false }]
    }
}

/// Returns an engine with all of these workflows.
pub fn bench() -> Bench {
    let bench = Bench::new();
    let engine = bench.engine.clone().with_workflow::<House>().unwrap().with_workflow::<Closing>().unwrap();
    Bench { engine, ..bench }
}

pub fn house(way: Way, jobs: impl IntoIterator<Item = Job>) -> House {
    House { jobs: jobs.into_iter().collect(), way, ..House::default() }
}

pub fn job(name: &str, steps: impl IntoIterator<Item = Spec>) -> Job {
    Job { name: name.into(), ..Job::of(steps) }
}

impl Bench {
    pub async fn live(&self, house: House) -> Started {
        self.engine.start(house, Request::by(&super::job::requester())).await.unwrap()
    }
}
