//! A person who changes a plan cannot approve it, and an approved plan cannot be changed.

use crate::tests::one_approval::{Pass, START, person};
use crate::{
    ActionError, Attribution, DAY, Event, Execution, Outcome, Plan, Refusal, Repair, Seat, Step, Subject,
    TaskRef, Verdict, Vote, Workflow, act, approval, end, transition,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use strum::{IntoStaticStr, VariantArray};

/// Weighs, waits for one approver of `ops`, makes, and hands over.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Purchase {
    gpus: u32,
    note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
enum State {
    Weighing,
    Asking,
    Making,
    HandingOver,
    Done,
    Refused,
}

impl Workflow for Purchase {
    const NAME: &'static str = "order";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Weighing;
    type State = State;
    type Platform = ();

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Weighing => act(Pass).nothing_to_undo().then(State::Asking),
            State::Asking => approval([Seat::new("ops", 1)])
                .within(DAY)
                .granted(State::Making)
                .refused(State::Refused)
                .expired(State::Refused),
            State::Making => act(Pass).nothing_to_undo().then(State::HandingOver),
            State::HandingOver => act(Pass).forward_only().then(State::Done),
            State::Done => end(Outcome::Completed),
            State::Refused => end(Outcome::Refused),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), name: "order".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "order".into(), decides: json!({ "gpus": self.gpus }), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { gpus: 8, note: String::new() }]
    }
}

fn take(exec: &mut Execution<Purchase>, event: Event) -> Result<(), Refusal> {
    *exec = transition(exec.clone(), event, START)?.execution;
    Ok(())
}

fn edit(exec: &mut Execution<Purchase>, by: &str, patch: serde_json::Value) -> Result<(), Refusal> {
    let order = Attribution { by: by.into(), reason: "so".into() };
    take(exec, Event::Repaired { repair: Repair::Edit { patch }, order })
}

fn agree(exec: &mut Execution<Purchase>, name: &str) -> Result<(), Refusal> {
    let digest = exec.digest();
    let vote = Vote::new(person(name, &["ops"]), Verdict::Approve, "", START);
    take(exec, Event::Voted { vote, digest })
}

fn settle(exec: &mut Execution<Purchase>, result: Result<serde_json::Value, ActionError>) {
    let ticket = TaskRef { visit: exec.visit, slot: 0 };
    take(exec, Event::Settled { ticket, result, tried: None }).unwrap();
}

fn begun() -> Execution<Purchase> {
    let mut exec = Execution::new(Purchase { gpus: 8, note: String::new() }, "rita", START);
    take(&mut exec, Event::Started).unwrap();
    exec
}

#[test]
fn a_person_who_changed_the_plan_cannot_approve_it() {
    let mut exec = begun();
    edit(&mut exec, "olga", json!({ "gpus": 16 })).unwrap();
    edit(&mut exec, "nora", json!({ "note": "by the door" })).unwrap();
    settle(&mut exec, Ok(json!(null)));

    assert!(matches!(agree(&mut exec, "olga"), Err(Refusal::OwnRequest { .. })));
    assert!(matches!(agree(&mut exec, "rita"), Err(Refusal::OwnRequest { .. })));
    agree(&mut exec, "nora").unwrap();
    assert_eq!(exec.state, State::Making, "an edit that does not change the plan excludes no approver");
}

#[test]
fn an_approved_plan_cannot_be_edited() {
    let mut exec = begun();
    settle(&mut exec, Ok(json!(null)));
    agree(&mut exec, "ada").unwrap();
    let before = exec.digest();

    let refused = edit(&mut exec, "olga", json!({ "gpus": 16 })).unwrap_err();

    assert!(refused.to_string().contains("submit a new request"), "{refused}");
    assert_eq!(exec.digest(), before);
    assert_eq!(exec.state, State::Making);
}
