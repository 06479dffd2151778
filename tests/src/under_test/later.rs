//! The onboarding of a later version: data of another shape, and an additional state.

use engine::{Plan, SECOND, Step, Subject, UpgradeError, Workflow, wait};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::VariantArray;
use workflows::{
    onboarding::{Onboarding, State},
    platform::Platform,
};

/// An onboarding of the earlier version, with a field that version does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Later {
    /// The earlier content.
    pub was: Onboarding,
    /// The tenant's greeting.
    pub greeting: String,
}

/// The state: one of an onboarding, or the new state before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A state of the earlier version.
    Was(State),
    /// The new state, between `Activating` and `Active`.
    Greeting,
}

const WERE: usize = State::VARIANTS.len();
const ALL: [Place; WERE + 1] = {
    let mut all = [Place::Greeting; WERE + 1];
    let mut n = 0;
    while n < WERE {
        all[n] = Place::Was(State::VARIANTS[n]);
        n += 1;
    }
    all
};

impl VariantArray for Place {
    const VARIANTS: &'static [Self] = &ALL;
}

impl From<Place> for &'static str {
    fn from(place: Place) -> Self {
        match place {
            Place::Was(state) => state.into(),
            Place::Greeting => "Greeting",
        }
    }
}

impl Workflow for Later {
    const NAME: &'static str = Onboarding::NAME;
    const SCHEMA: u32 = Onboarding::SCHEMA + 1;
    const INITIAL: Place = Place::Was(Onboarding::INITIAL);
    type State = Place;
    type Platform = Platform;

    fn step(&self, place: Place) -> Step<Self> {
        let next = |state| if state == State::Active { Place::Greeting } else { Place::Was(state) };
        match place {
            Place::Was(state) => self.was.step(state).map_workflow(|me: &mut Self| &mut me.was, next),
            Place::Greeting => wait(SECOND).then(Place::Was(State::Active)),
        }
    }

    fn subject(&self) -> Subject {
        self.was.subject()
    }

    fn plan(&self) -> Plan {
        self.was.plan()
    }

    fn examples() -> Vec<Self> {
        Onboarding::examples().into_iter().map(|was| Self { was, greeting: "welcome".into() }).collect()
    }

    fn upgrade(from: u32, body: Value) -> Result<Value, UpgradeError> {
        if from == Onboarding::SCHEMA {
            return Ok(json!({ "was": body, "greeting": "welcome" }));
        }
        Err(UpgradeError { from, why: format!("this version reads schema {}", Self::SCHEMA) })
    }
}
