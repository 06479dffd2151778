//! The main workflow of the simulation: its steps are data.

use super::{ANSWER_WITHIN, Chore, Made, Make, Pay, Release, Reserve, SLEEP, Unmake, policy};
use crate::world::{PATIENCE, World};
use engine::{
    ChildEnd, HOUR, Outcome, Plan, Rule, Seat, Step, Subject, Workflow, act, act_each, approval,
    await_signal, children, end, wait, when,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

/// The step of one of the numbered states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Spec {
    /// Makes these in parallel.
    Make(Vec<String>),
    /// Takes this number of tokens from the pool.
    Reserve(u64),
    /// Waits for the approval of two users with role `boss`.
    Ask,
    /// Waits for the signal `go`.
    Listen,
    /// Waits ten minutes.
    Sleep,
    /// Starts children.
    Send(Vec<Chore>),
    /// Pays once; this is the pivot.
    Pay(String),
}

/// A workflow of consecutive steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Errand {
    /// Names it.
    pub name: String,
    /// The steps.
    pub steps: Vec<Spec>,
    /// The answers of calls.
    pub noted: Vec<Made>,
    /// The ends of the children.
    pub sent: Vec<String>,
}

/// The states of the workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Going {
    Leaving,
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Done,
    Declined,
    Lapsed,
}

impl Errand {
    /// Returns the step of a state.
    #[must_use]
    pub fn spec(&self, state: &str) -> Option<&Spec> {
        let place = ["First", "Second", "Third", "Fourth", "Fifth"].iter().position(|name| *name == state)?;
        self.steps.get(place)
    }

    fn at(&self, state: Going, next: Going) -> Step<Self> {
        let note = |me: &mut Self, made: Made| me.noted.push(made);
        let sent = |me: &mut Self, end: ChildEnd<Vec<Made>>| {
            let outcome: &str = end.outcome.into();
            me.sent.push(outcome.into());
        };
        let none: Vec<Make> = Vec::new();
        let unmake = |make: &Make| Unmake { name: make.name.clone() };
        match self.spec(state.into()).cloned() {
            None => act_each(none).undo_each(unmake).then(next),
            Some(Spec::Make(names)) => act_each(names.into_iter().map(|name| Make { name }))
                .undo_each(unmake)
                .record(note)
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
                .then(next),
            Some(Spec::Reserve(tokens)) => {
                act(Reserve { tokens }).undo(Release { tokens }).retry(policy()).within(6 * HOUR).then(next)
            }
            Some(Spec::Ask) => approval([Seat::new("boss", 2)])
                .within(ANSWER_WITHIN)
                .granted(next)
                .refused(Going::Declined)
                .expired(Going::Lapsed),
            Some(Spec::Listen) => await_signal("go").within(ANSWER_WITHIN).then(next).expired(Going::Lapsed),
            Some(Spec::Sleep) => wait(SLEEP).then(next),
            Some(Spec::Send(chores)) => children(chores)
                .map_result(|chore| chore.noted.clone())
                .cancel_on_undo()
                .within(24 * HOUR)
                .record(sent)
                .then(next),
            Some(Spec::Pay(name)) => {
                act(Pay { name }).forward_only().retry(policy()).attempt_within(PATIENCE).then(next)
            }
        }
    }
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    const SCHEMA: u32 = 1;
    const INITIAL: Going = Going::Leaving;
    type State = Going;
    type Platform = Arc<World>;

    fn step(&self, state: Going) -> Step<Self> {
        match state {
            // Policy approves every execution, so that its payment is authorised.
            Going::Leaving => when(true, "always", Going::First)
                .waived_by(Rule { name: "simulation".into(), version: "1".into() })
                .or_when(false, "never", Going::Declined)
                .otherwise("late", Going::Lapsed),
            Going::First => self.at(state, Going::Second),
            Going::Second => self.at(state, Going::Third),
            Going::Third => self.at(state, Going::Fourth),
            Going::Fourth => self.at(state, Going::Fifth),
            Going::Fifth => self.at(state, Going::Done),
            Going::Done => end(Outcome::Completed),
            Going::Declined => end(Outcome::Refused),
            Going::Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "home".into(), name: format!("errand/{}", self.name), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: self.name.clone(), decides: json!({ "name": self.name }), placement: json!(self.noted) }
    }

    fn examples() -> Vec<Self> {
        let chore = Chore { name: "c".into(), dawdles: false, noted: vec![] };
        let of = |steps: Vec<Spec>| Self { name: "example".into(), steps, noted: vec![], sent: vec![] };
        vec![
            of(vec![Spec::Make(vec!["a".into()]); 5]),
            of(vec![Spec::Reserve(1); 5]),
            of(vec![Spec::Send(vec![chore]); 5]),
        ]
    }
}
