//! The authority that a parent passes to its children.

use crate::engine::{
    household::{Closing, ClosingState, Erasure, bench},
    job::{Bench, Stage, requester},
};
use engine::{
    Error, Flaw, HOUR, Outcome, Person, Plan, Request, Rule, Started, Step, Subject, Verdict, Workflow,
    check, children, end, when,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

fn closing(lies: bool) -> Closing {
    Closing { shelves: vec!["s".into(), "t".into()], method: "fire".into(), lies }
}

async fn agreed(bench: &Bench, closing: Closing) -> Started {
    let parent = bench.engine.start(closing, Request::by(&requester())).await.unwrap();
    let case = bench.engine.approval(parent.id).await.unwrap().unwrap();
    for name in ["ada", "bob"] {
        let person = Person::new(name, ["boss"]);
        bench.engine.vote(parent.id, &person, Verdict::Approve, &case.digest, "yes").await.unwrap();
    }
    bench.settle(HOUR).await;
    parent
}

#[tokio::test]
async fn a_child_uses_and_records_the_authority_of_its_parent() {
    let bench = bench();
    let parent = agreed(&bench, closing(false)).await;

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
    let child = bench.children(parent).await.remove(0).execution;
    let given = bench.engine.execution(child).await.unwrap().1.body["authorisation"]["by"]["parent"].clone();
    let (_, shown) = bench.engine.execution(parent.id).await.unwrap();
    assert_eq!(given["execution"], json!(parent.id));
    assert_eq!(given["plan"], json!(shown.digest));
    assert_eq!(given["by"], json!({ "people": ["ada", "bob"] }));
}

#[tokio::test]
async fn a_child_outside_the_plan_of_its_parent_is_not_started() {
    let bench = bench();
    let parent = agreed(&bench, closing(true)).await;

    let (_, shown) = bench.engine.execution(parent.id).await.unwrap();
    assert_eq!(shown.body["phase"]["parked"]["errors"][0]["code"], json!("child.not_in_plan"));
    assert!(bench.children(parent).await.is_empty());
    assert_eq!(bench.stage.log(), Vec::<String>::new());
}

#[tokio::test]
async fn a_workflow_that_needs_the_authority_of_a_parent_does_not_start_without_one() {
    let bench = bench();
    let alone = Erasure { shelf: "s".into(), method: "fire".into() };

    let refused = bench.engine.start(alone, Request::by(&requester())).await;

    assert!(matches!(refused, Err(Error::NeedsParent { workflow }) if workflow == "erasure"));
}

/// A parent that erases before an approval, or on a waiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Hasty<const WAIVED: bool>;

impl<const WAIVED: bool> Workflow for Hasty<WAIVED> {
    const NAME: &'static str = "hasty";
    const SCHEMA: u32 = 1;
    const INITIAL: ClosingState = ClosingState::Asking;
    type State = ClosingState;
    type Platform = Stage;

    fn step(&self, state: ClosingState) -> Step<Self> {
        let erasure = || Erasure { shelf: "s".into(), method: "fire".into() };
        let rule = || Rule { name: "tests".into(), version: "1".into() };
        let quick = when(true, "quick", ClosingState::Erasing);
        match state {
            ClosingState::Asking if WAIVED => quick.waived_by(rule()).otherwise("no", ClosingState::Open),
            ClosingState::Asking => quick.otherwise("no", ClosingState::Open),
            ClosingState::Erasing => children([erasure()]).cancel_on_undo().then(ClosingState::Closed),
            ClosingState::Closed => end(Outcome::Completed),
            ClosingState::Open => end(Outcome::Refused),
        }
    }
    fn subject(&self) -> Subject {
        Subject::default()
    }
    fn plan(&self) -> Plan {
        Plan::default()
    }
    fn examples() -> Vec<Self> {
        vec![Self]
    }
}

#[test]
fn a_parent_cannot_pass_on_an_authority_that_it_does_not_have() {
    assert_eq!(check::<Hasty<false>>(), [Flaw::Unauthorised("Erasing".into())]);
    assert_eq!(check::<Hasty<true>>(), [Flaw::DestroysWithoutPeople("Erasing".into())]);
}
