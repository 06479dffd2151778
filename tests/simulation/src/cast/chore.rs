//! Chores: the child workflows of the simulation.

use super::{Made, Make, SLEEP, Unmake, policy};
use crate::world::{PATIENCE, World};
use engine::{HOUR, Outcome, Plan, Step, Subject, Workflow, act, end, wait, when};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

/// Makes one object for its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chore {
    /// The name of the object.
    pub name: String,
    /// True if it waits in the middle.
    pub dawdles: bool,
    /// The answers of calls.
    pub noted: Vec<Made>,
}

/// The states of a chore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Doing {
    Choosing,
    Dawdling,
    Making,
    Polishing,
    Done,
}

impl Workflow for Chore {
    const NAME: &'static str = "chore";
    const SCHEMA: u32 = 1;
    const INITIAL: Doing = Doing::Choosing;
    type State = Doing;
    type Platform = Arc<World>;

    fn step(&self, state: Doing) -> Step<Self> {
        let make = |name: String| {
            act(Make { name: name.clone() })
                .undo(Unmake { name })
                .record(|me: &mut Self, made| me.noted.push(made))
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
        };
        match state {
            Doing::Choosing => {
                when(self.dawdles, "dawdle", Doing::Dawdling).otherwise("at once", Doing::Making)
            }
            Doing::Dawdling => wait(SLEEP).then(Doing::Making),
            Doing::Making => make(self.name.clone()).then(Doing::Polishing),
            Doing::Polishing => make(format!("{}-polish", self.name)).then(Doing::Done),
            Doing::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "home".into(), name: format!("chore/{}", self.name), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "chore".into(), decides: json!({ "make": self.name }), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { name: "a".into(), dawdles: true, noted: vec![] }]
    }
}
