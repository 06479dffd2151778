//! Books a hall on the in-memory store and prints the journal.

use booking::{Booking, town::Town};
use engine::{Engine, Person, Request, SystemClock, Verdict};
use std::{error::Error, sync::Arc};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(store::Memory::new());
    let engine = Engine::new(store, Arc::new(SystemClock), Town::default()).with_workflow::<Booking>()?;

    let ada = Person::new("ada", ["treasurer"]);
    let wish = Booking { hall: "town hall".into(), euros: 500, receipt: None };
    let started = engine.start(wish, Request::by(&ada)).await?;
    engine.run_until_idle().await?;

    let asked = engine.approval(started.id).await?.ok_or("no approval is open")?;
    if let Err(refused) = engine.vote(started.id, &ada, Verdict::Approve, &asked.digest, "mine").await {
        println!("ada: {refused}");
    }
    for name in ["grace", "edsger"] {
        let person = Person::new(name, ["treasurer"]);
        engine.vote(started.id, &person, Verdict::Approve, &asked.digest, "a fair price").await?;
    }
    engine.run_until_idle().await?;

    for entry in engine.journal(started.id).await? {
        println!("{:>10} by {:<7} {} -> {}", entry.event, entry.actor, entry.from, entry.to);
    }
    Ok(())
}
