//! Invalid workflows, each with the faulty state.

use super::job::{Do, Stage, Undo};
use engine::{
    Flaw, HOUR, Outcome, Plan, Rule, Seat, Step, Subject, Workflow, act, approval, await_signal, check, end,
    when,
};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum State {
    Start,
    Middle,
    Last,
    Done,
}

/// A workflow by its steps: `KIND` chooses one of the tables below.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Wired<const KIND: u8>;

fn of<const KIND: u8>(state: State) -> Step<Wired<KIND>> {
    use State::*;
    let go = |name: &str| act(Do { name: name.into() });
    let back = || Undo { name: "x".into(), seen: 0 };
    let ask = |within| {
        let asking = approval([Seat::new("boss", 1)]);
        if within { asking.within(HOUR) } else { asking }
    };
    let waived = || when(true, "small", Middle).waived_by(Rule { name: "r".into(), version: "1".into() });
    match (KIND, state) {
        // 0: sound.
        (0, Start) => ask(true).granted(Middle).refused(Done).expired(Done),
        (0, Middle) => go("a").undo(back()).then(Last),
        (0, Last) => go("b").forward_only().then(Done),
        // 1: Middle is never reached.
        (1, Start) => go("a").undo(back()).then(Last),
        (1, Middle) => go("b").undo(back()).then(Last),
        // 2: Middle and Last lead to each other only.
        (2, Start) => when(true, "on", Middle).otherwise("off", Done),
        (2, Middle) => go("a").undo(back()).then(Last),
        (2, Last) => go("a").undo(back()).then(Middle),
        // 3: waits without a deadline.
        (3, Start) => ask(false).granted(Middle).refused(Done).expired(Done),
        (3, Middle) => await_signal("go").then(Last).expired(Done),
        // 4: an undo behind the pivot.
        (4, Start) => ask(true).granted(Middle).refused(Done).expired(Done),
        (4, Middle) => go("a").forward_only().then(Last),
        (4, Last) => go("b").undo(back()).then(Done),
        // 5: a pivot that one path reaches unauthorised.
        (5, Start) => when(true, "ask", Middle).otherwise("do not", Last),
        (5, Middle) => ask(true).granted(Last).refused(Done).expired(Done),
        (5, Last) => go("b").forward_only().then(Done),
        // 6: destruction on a waiver.
        (6, Start) => waived().otherwise("large", Done),
        (6, Middle) => go("a").nothing_to_undo().then(Last),
        (6, Last) => go("b").forward_only().destroys().then(Done),
        // 7: an approval without seats.
        (7, Start) => approval([]).within(HOUR).granted(Middle).refused(Done).expired(Done),
        (7, Middle) => go("a").nothing_to_undo().then(Last),
        (1 | 3 | 7, Last) => go("c").nothing_to_undo().then(Done),
        _ => end(Outcome::Completed),
    }
}

impl<const KIND: u8> Workflow for Wired<KIND> {
    const NAME: &'static str = "wired";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Start;
    type State = State;
    type Platform = Stage;

    fn step(&self, state: State) -> Step<Self> {
        of(state)
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
fn the_check_finds_no_error_in_a_valid_workflow() {
    assert_eq!(check::<Wired<0>>(), []);
}

/// S21, S33.
#[test]
fn each_way_to_get_stuck_is_refused_and_its_state_is_named() {
    assert_eq!(check::<Wired<1>>(), [Flaw::Unreachable("Middle".into())]);
    assert_eq!(check::<Wired<2>>(), [Flaw::DeadEnd("Middle".into()), Flaw::DeadEnd("Last".into())]);
    assert_eq!(check::<Wired<3>>(), [Flaw::NoDeadline("Start".into()), Flaw::NoDeadline("Middle".into())]);
    assert_eq!(check::<Wired<4>>(), [Flaw::UndoAfterPivot("Last".into())]);
    assert_eq!(check::<Wired<5>>(), [Flaw::Unauthorised("Last".into())]);
    assert_eq!(check::<Wired<6>>(), [Flaw::DestroysWithoutPeople("Last".into())]);
    assert_eq!(check::<Wired<7>>(), [Flaw::NoSeats("Start".into())]);
}

#[test]
fn an_invalid_workflow_cannot_be_registered() {
    let store = std::sync::Arc::new(store::Memory::new());
    let engine = engine::Engine::new(store, std::sync::Arc::new(engine::SystemClock), Stage::default());
    let refused = engine.with_workflow::<Wired<5>>().err().unwrap().to_string();
    assert!(refused.contains("Last: a point of no return that can be reached without"), "{refused}");
}
