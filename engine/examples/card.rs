//! A complete workflow: a greeting card is written, approved and posted. It has a platform, an undo and a pivot.
//!
//! `cargo run -p tenure-engine --example card` runs it on the in-memory store and prints its diagram and its history.

use engine::{
    Action, ActionError, Call, DAY, Engine, Outcome, Person, Plan, Request, Seat, Step, Subject, SystemClock,
    Verdict, Workflow, act, approval, diagram, end,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, Mutex};
use strum::{IntoStaticStr, VariantArray};

/// The request, and the results of its actions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The addressee.
    pub name: String,
    /// The receipt of the post office. Set by `PostingCard`.
    pub receipt: Option<String>,
}

/// The states of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum State {
    /// Writes a card, which can still be shredded.
    WritingCard,
    /// Waits for an editor.
    AwaitingApproval,
    /// Posts the card, which cannot be undone.
    PostingCard,
    /// The card is posted.
    Sent,
    /// The editor refused.
    Declined,
    /// The editor did not decide in time.
    Forgotten,
}

impl Workflow for Hello {
    const NAME: &'static str = "hello";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::WritingCard;
    type State = State;
    type Platform = Desk;

    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let name = self.name.clone();
        match state {
            WritingCard => {
                act(WriteCard { name: name.clone() }).undo(ShredCard { name }).then(AwaitingApproval)
            }
            AwaitingApproval => approval([Seat::new("editor", 1)])
                .within(DAY)
                .granted(PostingCard)
                .refused(Declined)
                .expired(Forgotten),
            PostingCard => act(PostCard { name })
                .forward_only()
                .record(|me: &mut Self, receipt| me.receipt = Some(receipt))
                .then(Sent),
            Sent => end(Outcome::Completed),
            Declined => end(Outcome::Refused),
            Forgotten => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: String::new(), name: format!("card/{}", self.name), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan {
            title: format!("greet {}", self.name),
            decides: json!({ "greet": self.name }),
            placement: json!(null),
        }
    }

    fn examples() -> Vec<Self> {
        vec![Self { name: "ada".into(), receipt: None }]
    }
}

/// The platform: a desk with the cards that are not posted yet.
#[derive(Debug, Default)]
pub struct Desk {
    /// The written cards.
    pub cards: Mutex<Vec<String>>,
}

impl Desk {
    fn change(&self, change: impl FnOnce(&mut Vec<String>)) -> Result<(), ActionError> {
        let mut cards =
            self.cards.lock().map_err(|_| ActionError::transient("desk.poisoned", "a writer panicked"))?;
        change(&mut cards);
        Ok(())
    }
}

/// Safe to run twice: it does not write a second card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WriteCard {
    name: String,
}
impl Action for WriteCard {
    const NAME: &'static str = "WriteCard";
    type Platform = Desk;
    type Output = ();
    async fn run(&self, desk: &Desk, _: &Call) -> Result<(), ActionError> {
        desk.change(|cards| {
            if !cards.contains(&self.name) {
                cards.push(self.name.clone());
            }
        })
    }
}

/// Undoes [`WriteCard`]. Tolerates a card that was never written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShredCard {
    name: String,
}
impl Action for ShredCard {
    const NAME: &'static str = "ShredCard";
    type Platform = Desk;
    type Output = ();
    async fn run(&self, desk: &Desk, _: &Call) -> Result<(), ActionError> {
        desk.change(|cards| cards.retain(|card| *card != self.name))
    }
}

/// Safe to run twice: the post office ignores a repeated key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PostCard {
    name: String,
}
impl Action for PostCard {
    const NAME: &'static str = "PostCard";
    type Platform = Desk;
    type Output = String;
    async fn run(&self, desk: &Desk, call: &Call) -> Result<String, ActionError> {
        desk.change(|cards| cards.retain(|card| *card != self.name))?;
        Ok(format!("receipt for {}", call.key()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", diagram::<Hello>().mermaid(None));

    let store = Arc::new(store::Memory::new());
    let engine = Engine::new(store, Arc::new(SystemClock), Desk::default()).with_workflow::<Hello>()?;
    let ada = Person::new("ada", ["writer"]);
    let started = engine.start(Hello { name: "world".into(), receipt: None }, Request::by(&ada)).await?;
    engine.run_until_idle().await?;

    let asked = engine.approval(started.id).await?.ok_or("no approval is open")?;
    if let Err(refused) = engine.vote(started.id, &ada, Verdict::Approve, &asked.digest, "mine").await {
        println!("ada: {refused}");
    }
    let grace = Person::new("grace", ["editor"]);
    engine.vote(started.id, &grace, Verdict::Approve, &asked.digest, "reads well").await?;
    engine.run_until_idle().await?;

    for entry in engine.journal(started.id).await? {
        println!("{:>16} {:>12} {} -> {}", entry.event, entry.actor, entry.from, entry.to);
    }
    Ok(())
}
