//! Actions on the simulated platform: objects are made, removed, paid and destroyed.

use crate::world::{Deed, World};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An object that a call made, and its visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The object.
    pub name: String,
    /// The state.
    pub state: String,
    /// The number of the visit.
    pub entered: u32,
}

/// Makes an object. Safe to run twice: the platform remembers the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Make {
    /// Its name.
    pub name: String,
}
impl Action for Make {
    const NAME: &'static str = "Make";
    type Platform = Arc<World>;
    type Output = Made;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<Made, ActionError> {
        on.perform(Deed::Make, &self.name, call).await?;
        Ok(self.made(call))
    }
    async fn probe(&self, on: &Arc<World>, call: &Call) -> Result<Probe<Made>, ActionError> {
        on.ask(call, self.made(call)).await
    }
}
impl Make {
    fn made(&self, call: &Call) -> Made {
        Made { name: self.name.clone(), state: call.state.clone(), entered: call.states_entered }
    }
}

/// Removes an object. Tolerates its absence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unmake {
    /// Its name.
    pub name: String,
}
impl Action for Unmake {
    const NAME: &'static str = "Unmake";
    type Platform = Arc<World>;
    type Output = ();
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<(), ActionError> {
        on.perform(Deed::Unmake, &self.name, call).await
    }
}

/// Pays. Not repeatable before a probe has shown that it did not happen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pay {
    /// The subject of the payment.
    pub name: String,
}
impl Action for Pay {
    const NAME: &'static str = "Pay";
    type Platform = Arc<World>;
    type Output = ();
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<(), ActionError> {
        on.perform(Deed::Pay, &self.name, call).await
    }
    async fn probe(&self, on: &Arc<World>, call: &Call) -> Result<Probe<()>, ActionError> {
        on.ask(call, ()).await
    }
}

/// Destroys. Safe to run twice: a destroyed object stays destroyed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wreck {
    /// The object.
    pub name: String,
}
impl Action for Wreck {
    const NAME: &'static str = "Wreck";
    type Platform = Arc<World>;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<(), ActionError> {
        on.perform(Deed::Wreck, &self.name, call).await
    }
}
