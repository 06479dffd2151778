//! A whole workflow in one file: greet someone by hand-written card, with a second pair of eyes.
//!
//! `cargo run -p engine --example hello` runs it on the in-memory store and prints its diagram and its history.

use engine::{
    Action, ActionError, Call, DAY, Engine, Outcome, Person, Plan, Request, Seat, Step, Subject, SystemClock,
    Verdict, Workflow, act, approval, diagram, end,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, Mutex};
use strum::{IntoStaticStr, VariantArray};

/// The request, and what has been learnt while serving it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Whom to greet.
    pub name: String,
    /// From the post office. Filled by `PostingCard`.
    pub receipt: Option<String>,
}

/// Where a greeting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum State {
    /// A card is written; it could still be shredded.
    WritingCard,
    /// An editor reads it.
    AwaitingApproval,
    /// It goes to the post, and cannot be taken back.
    PostingCard,
    /// It is on its way.
    Sent,
    /// The editor said no.
    Declined,
    /// Nobody read it in time.
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

/// The world outside: what lies on the desk, and what is in the post.
#[derive(Debug, Default)]
pub struct Desk {
    /// Cards written and not posted.
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

/// Running it twice writes one card: it looks before it writes.
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

/// Undoes [`WriteCard`]; a card that was never written is no trouble.
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

/// Running it twice posts one card: the post office knows the key.
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
