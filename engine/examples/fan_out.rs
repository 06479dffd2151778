//! One action for each item of a list, two at a time, and a sum of their results.

use engine::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
/// The texts of the request, and the number of their words.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Count(Vec<String>, usize);
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    Counting,
    Done,
}
impl Workflow for Count {
    const NAME: &'static str = "count";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Counting;
    type State = State;
    type Platform = ();
    fn step(&self, state: State) -> Step<Self> {
        let add = |me: &mut Self, words: usize| me.1 += words;
        let each = act_each(self.0.iter().cloned().map(CountWords)).nothing_to_undo();
        match state {
            State::Counting => each.record(add).max_concurrent(2).then(State::Done),
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
        vec![Self(vec!["a text".into()], 0)]
    }
}
/// Counts the words of one text. It is safe to run twice, and needs no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CountWords(String);
impl Action for CountWords {
    const NAME: &'static str = "CountWords";
    type Platform = ();
    type Output = usize;
    async fn run(&self, (): &(), _: &Call) -> Result<usize, ActionError> {
        Ok(self.0.split_whitespace().count())
    }
}
/// Counts the words of three texts.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new(Arc::new(store::Memory::new()), Arc::new(SystemClock), ());
    let engine = engine.with_workflow::<Count>()?;
    let request = Request::by(&Person::new("ada", ["writer"]));
    let id = engine.start(Count(vec!["one".into(), "two words".into()], 0), request).await?.id;
    engine.run_until_idle().await?;
    let body = engine.execution(id).await?.1.body;
    println!("{} words", body.pointer("/data/1").and_then(|words| words.as_u64()).unwrap_or_default());
    Ok(())
}
