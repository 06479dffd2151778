//! Demolitions: workflows that destroy a plan after two approvals.

use super::{ANSWER_WITHIN, Made, Make, Unmake, Wreck, policy};
use crate::world::{PATIENCE, World};
use engine::{HOUR, Outcome, Plan, Seat, Step, Subject, Workflow, act, approval, end};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

/// Destroys a group of rooms, after two users have approved exactly these rooms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demolition {
    /// The subject: one demolition of it at a time.
    pub name: String,
    /// Distinguishes the demolitions of one subject.
    pub number: u32,
    /// Rooms that only the survey finds, and that change the plan.
    pub hidden: u32,
    /// The known rooms.
    pub rooms: u32,
    /// The answers of calls.
    pub noted: Vec<Made>,
}

/// The states of a demolition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Wrecking {
    Agreeing,
    Surveying,
    Wrecking,
    Clearing,
    Done,
    Spared,
    Lapsed,
}

impl Demolition {
    /// Returns the name of an object that it makes.
    #[must_use]
    pub fn thing(&self, what: &str) -> String {
        format!("{}-{}-{what}", self.name, self.number)
    }
}

impl Workflow for Demolition {
    const NAME: &'static str = "demolition";
    const SCHEMA: u32 = 1;
    const INITIAL: Wrecking = Wrecking::Agreeing;
    type State = Wrecking;
    type Platform = Arc<World>;

    fn step(&self, state: Wrecking) -> Step<Self> {
        match state {
            Wrecking::Agreeing => approval([Seat::new("boss", 2)])
                .within(ANSWER_WITHIN)
                .granted(Wrecking::Surveying)
                .refused(Wrecking::Spared)
                .expired(Wrecking::Lapsed),
            Wrecking::Surveying => act(Make { name: self.thing("fence") })
                .undo(Unmake { name: self.thing("fence") })
                .record(|me: &mut Self, made| {
                    me.rooms += std::mem::take(&mut me.hidden);
                    me.noted.push(made);
                })
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
                .then(Wrecking::Wrecking),
            Wrecking::Wrecking => act(Wreck { name: self.name.clone() })
                .forward_only()
                .destroys()
                .retry(policy())
                .attempt_within(PATIENCE)
                .then(Wrecking::Clearing),
            Wrecking::Clearing => act(Make { name: self.thing("lawn") })
                .nothing_to_undo()
                .record(|me: &mut Self, made| me.noted.push(made))
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
                .then(Wrecking::Done),
            Wrecking::Done => end(Outcome::Completed),
            Wrecking::Spared => end(Outcome::Refused),
            Wrecking::Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            tenant: "home".into(),
            name: format!("house/{}", self.name),
            guard: Some(format!("house/{}", self.name)),
        }
    }

    fn plan(&self) -> Plan {
        let decides = json!({ "wreck": self.name, "rooms": self.rooms });
        Plan { title: format!("wreck {}", self.name), decides, placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { name: "h".into(), number: 0, hidden: 0, rooms: 1, noted: vec![] }]
    }
}
