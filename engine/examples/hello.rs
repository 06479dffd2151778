//! A workflow with one action. Run it with `cargo run -p tenure-engine --example hello`.

use engine::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
/// The request. It is stored with each execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello(pub String);
/// The states of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
pub enum State {
    /// Prints the greeting.
    Greeting,
    /// The end.
    Done,
}

impl Workflow for Hello {
    const NAME: &'static str = "hello";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Greeting;
    type State = State;
    type Platform = ();
    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Greeting => act(Greet(self.0.clone())).nothing_to_undo().then(State::Done),
            State::Done => end(Outcome::Completed),
        }
    }
    fn subject(&self) -> Subject {
        Subject { name: format!("greeting/{}", self.0), ..Subject::default() }
    }
    fn plan(&self) -> Plan {
        Plan { title: format!("greet {}", self.0), ..Plan::default() }
    }
    fn examples() -> Vec<Self> {
        vec![Self("ada".into())]
    }
}
/// Prints a greeting. It is safe to run twice, and needs no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Greet(pub String);
impl Action for Greet {
    const NAME: &'static str = "Greet";
    type Platform = ();
    type Output = ();
    async fn run(&self, (): &(), _: &Call) -> Result<(), ActionError> {
        println!("hello, {}", self.0);
        Ok(())
    }
}
/// Starts one execution on the in-memory store, and runs it to its end.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new(Arc::new(store::Memory::new()), Arc::new(SystemClock), ());
    let engine = engine.with_workflow::<Hello>()?;
    engine.start(Hello("world".into()), Request::by(&Person::new("ada", ["writer"]))).await?;
    engine.run_until_idle().await?;
    Ok(())
}
