//! An action that cannot be undone, after the approval of another person.

use engine::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[allow(dead_code, unreachable_pub, reason = "only the action of this example is used")]
#[path = "hello.rs"]
mod hello;
/// The request: the name to greet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Announcement(String);
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    AwaitingApproval,
    Announcing,
    Announced,
    Declined,
}
impl Workflow for Announcement {
    const NAME: &'static str = "announcement";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::AwaitingApproval;
    type State = State;
    type Platform = ();
    fn step(&self, state: State) -> Step<Self> {
        let review = approval([Seat::new("editor", 1)]).within(DAY).granted(State::Announcing);
        let greet = hello::Greet(self.0.clone());
        match state {
            State::AwaitingApproval => review.refused(State::Declined).expired(State::Declined),
            State::Announcing => act(greet).forward_only().then(State::Announced),
            State::Announced => end(Outcome::Completed),
            State::Declined => end(Outcome::Refused),
        }
    }
    fn subject(&self) -> Subject {
        Subject { name: format!("announcement/{}", self.0), ..Subject::default() }
    }
    // Votes are for the digest of `decides`, and never count for another plan.
    fn plan(&self) -> Plan {
        Plan { decides: serde_json::json!({ "greet": self.0 }), ..Plan::default() }
    }
    fn examples() -> Vec<Self> {
        vec![Self("ada".into())]
    }
}
/// Ada requests an announcement. She cannot approve it herself, so Grace does.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new(Arc::new(store::Memory::new()), Arc::new(SystemClock), ());
    let engine = engine.with_workflow::<Announcement>()?;
    let (ada, grace) = (Person::new("ada", ["editor"]), Person::new("grace", ["editor"]));
    let id = engine.start(Announcement("world".into()), Request::by(&ada)).await?.id;
    let digest = engine.approval(id).await?.ok_or("no approval is open")?.digest;
    let refused = engine.vote(id, &ada, Verdict::Approve, &digest, "mine").await;
    println!("{}", refused.err().ok_or("the requester voted")?);
    engine.vote(id, &grace, Verdict::Approve, &digest, "reads well").await?;
    engine.run_until_idle().await?;
    Ok(())
}
