//! A workflow that starts another one for each item of a list, and waits for their ends.

use engine::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[allow(dead_code, unreachable_pub, reason = "only the workflow of this example is used")]
#[path = "hello.rs"]
mod hello;

/// The request: the names to greet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Round(Vec<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    Greeting,
    Done,
}

impl Workflow for Round {
    const NAME: &'static str = "round";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Greeting;
    type State = State;
    type Platform = ();
    fn step(&self, state: State) -> Step<Self> {
        let greetings = self.0.iter().cloned().map(hello::Hello);
        match state {
            State::Greeting => children(greetings).cancel_on_undo().within(HOUR).then(State::Done),
            State::Done => end(Outcome::Completed),
        }
    }
    fn subject(&self) -> Subject {
        Subject::default()
    }
    fn plan(&self) -> Plan {
        Plan::default()
    }
    fn examples() -> Vec<Self> {
        vec![Self(vec!["ada".into()])]
    }
}

/// Registers the parent, which also registers its children, and greets two people.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new(Arc::new(store::Memory::new()), Arc::new(SystemClock), ());
    let engine = engine.with_workflow::<Round>()?;
    let round = Round(vec!["grace".into(), "edsger".into()]);
    let id = engine.start(round, Request::by(&Person::new("ada", ["writer"]))).await?.id;
    engine.run_until_idle().await?;
    for child in engine.children(id).await? {
        println!("{}: {:?}", child.subject, child.outcome);
    }
    Ok(())
}
