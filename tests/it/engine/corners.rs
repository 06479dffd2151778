//! Regressions, each with a workflow that reproduces it.

use super::job::{Bench, Do, Reply, Stage, permanent, requester};
use engine::{
    Action, ActionError, Attribution, Call, DAY, Error, Event, HOUR, LedgerAction, Outcome, Person, Plan,
    Probe, Refusal, Repeat, Request, RetryPolicy, Seat, Started, Step, Subject, Undecided, Verdict, View,
    Workflow, act, act_each, all, approval, branch, end,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use strum::{IntoStaticStr, VariantArray};

/// An action that may only be repeated after a probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Once {
    name: String,
}
impl Action for Once {
    const NAME: &'static str = "Once";
    type Platform = Stage;
    type Output = ();
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;
    async fn run(&self, on: &Stage, call: &Call) -> Result<(), ActionError> {
        on.perform(format!("once {}", self.name), call).await
    }
    async fn probe(&self, _: &Stage, _: &Call) -> Result<Probe<()>, ActionError> {
        Ok(Probe::CannotTell)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Take {
    refused: bool,
}
impl LedgerAction for Take {
    const NAME: &'static str = "Take";
    type Output = ();
    fn decide(&self, _: &mut View, _: &Call) -> Result<(), Undecided> {
        if self.refused { Err(ActionError::permanent("shelf.empty", "told to").into()) } else { Ok(()) }
    }
}

const SIBLINGS: u8 = 0;
const UNDO_ONCE: u8 = 1;
const LEDGER_PIVOT: u8 = 2;
const UNKEEPABLE: u8 = 3;
const DESTROYS: u8 = 4;
const PANICS: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum State {
    Asking,
    First,
    Second,
    Done,
    Off,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Corner<const KIND: u8> {
    seen: u32,
}

fn once(name: &str) -> Once {
    Once { name: name.into() }
}

fn does(name: &str) -> Do {
    Do { name: name.into() }
}

impl<const KIND: u8> Corner<KIND> {
    fn first(&self) -> Step<Self> {
        let few = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        match KIND {
            SIBLINGS => act_each([once("a"), once("b")]).nothing_to_undo().retry(few).then(State::Second),
            UNDO_ONCE => act(does("a")).undo(once("a")).then(State::Second),
            LEDGER_PIVOT => {
                act_each([Take { refused: false }, Take { refused: true }]).forward_only().then(State::Second)
            }
            UNKEEPABLE => act(does("a")).forward_only().then(State::Second),
            PANICS if self.seen > 0 => panic!("told to"),
            _ => act(does("a"))
                .nothing_to_undo()
                .record(|me: &mut Self, _: String| me.seen += 1)
                .then(State::Second),
        }
    }

    fn second(&self) -> Step<Self> {
        match KIND {
            DESTROYS => act(does("destroy")).forward_only().destroys().then(State::Done),
            UNKEEPABLE => {
                let wrong = branch(does("b")).nothing_to_undo().record(|me: &mut Self, n: u32| me.seen = n);
                all([wrong]).then(State::Done)
            }
            _ => act(does("b")).nothing_to_undo().then(State::Done),
        }
    }
}

impl<const KIND: u8> Workflow for Corner<KIND> {
    const NAME: &'static str = "corner";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Asking;
    type State = State;
    type Platform = Stage;

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Asking => approval([Seat::new("boss", 1)])
                .within(DAY)
                .granted(State::First)
                .refused(State::Off)
                .expired(State::Off),
            State::First => self.first(),
            State::Second => self.second(),
            State::Done => end(Outcome::Completed),
            State::Off => end(Outcome::Refused),
        }
    }
    fn subject(&self) -> Subject {
        Subject::default()
    }
    fn plan(&self) -> Plan {
        Plan { decides: json!({ "seen": self.seen }), ..Plan::default() }
    }
    fn examples() -> Vec<Self> {
        vec![Self::default()]
    }
}

fn order() -> Attribution {
    Attribution { by: "olga".into(), reason: "told to".into() }
}

async fn begun<const KIND: u8>(seen: u32) -> (Bench, Started) {
    let bench = Bench::new();
    let bench = Bench { engine: bench.engine.with_workflow::<Corner<KIND>>().unwrap(), ..bench };
    let data = Corner::<KIND> { seen };
    let started = bench.engine.start(data, Request::by(&requester())).await.unwrap();
    (bench, started)
}

async fn agree(bench: &Bench, to: Started) -> Result<store::Revision, Error> {
    let case = bench.engine.approval(to.id).await.unwrap().unwrap();
    bench.engine.vote(to.id, &Person::new("ada", ["boss"]), Verdict::Approve, &case.digest, "yes").await
}

async fn errors(bench: &Bench, of: Started) -> Vec<String> {
    let body = bench.engine.execution(of.id).await.unwrap().1.body;
    let errors = body["phase"]["parked"]["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error["code"].as_str().unwrap().to_owned()).collect()
}

fn lost() -> Reply {
    Reply::Fail(ActionError::unknown("stage.lost", "told to"))
}

#[tokio::test]
async fn an_unknown_outcome_takes_precedence_over_the_failure_of_a_sibling() {
    let (bench, job) = begun::<SIBLINGS>(0).await;
    bench.stage.on("once a", [permanent()]);
    bench.stage.on("once b", [lost()]);

    agree(&bench, job).await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("outcome_unknown"));
    assert_eq!(errors(&bench, job).await, ["stage.broken", "stage.lost"]);
}

#[tokio::test]
async fn an_undo_with_an_unknown_outcome_and_no_probe_needs_an_operator() {
    let (bench, job) = begun::<UNDO_ONCE>(0).await;
    bench.stage.on("do b", [permanent()]);
    bench.stage.on("once a", [lost()]);

    agree(&bench, job).await.unwrap();
    bench.settle(DAY).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("compensation_blocked"));
    assert_eq!(errors(&bench, job).await, ["outcome.unknown"]);
    assert_eq!(bench.stage.log(), ["do a"], "it was not sent again");
}

#[tokio::test]
async fn the_first_slot_of_a_ledger_pivot_passes_it_whatever_the_result_of_the_others() {
    let (bench, job) = begun::<LEDGER_PIVOT>(0).await;

    agree(&bench, job).await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("past_pivot_failure"));
    let refused = bench.engine.cancel(job.id, order()).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::ForwardOnly { .. }))), "{refused:?}");
}

#[tokio::test]
async fn a_retry_of_a_result_that_cannot_be_stored_parks_again_without_a_second_run() {
    let (bench, job) = begun::<UNKEEPABLE>(0).await;
    agree(&bench, job).await.unwrap();
    bench.settle(HOUR).await;
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("past_pivot_failure"));

    bench.engine.deliver(job.id, Event::RetryRequested(order())).await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("past_pivot_failure"));
    assert_eq!(bench.stage.log(), ["do a", "do b"]);
}

#[tokio::test]
async fn a_plan_that_changed_before_the_destruction_needs_a_new_approval() {
    let (bench, job) = begun::<DESTROYS>(0).await;

    agree(&bench, job).await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stands(job).await.0, "Asking");
    assert_eq!(bench.stage.log(), ["do a"]);
}

#[tokio::test]
async fn a_panic_in_a_workflow_affects_only_its_execution() {
    let (bench, job) = begun::<PANICS>(1).await;
    let healthy = bench.start([super::job::does(&["b"])]).await;

    let voted = agree(&bench, job).await;
    bench.settle(HOUR).await;

    assert!(matches!(voted, Err(Error::Unreadable { ref why, .. }) if why.contains("told to")), "{voted:?}");
    assert_eq!(bench.stands(healthy).await.2.as_deref(), Some("completed"));
    assert_eq!(bench.stands(job).await.0, "Asking", "it stays in its state");
}
