//! Five steps in memory on one thread, repeated: the counts measure only the engine's own work.
//!
//! `five TIMES`

#[path = "../../benches/load/flow.rs"]
#[expect(dead_code, reason = "the bench asks more of it")]
mod flow;

use engine::{Engine, Person, Request, SystemClock};
use flow::{Desk, W5};
use std::{error::Error, sync::Arc};
use store::Memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let times: u64 = std::env::args().nth(1).ok_or("how many times?")?.parse()?;
    let desk = Arc::new(Desk::default());
    let told = desk.clone();
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(SystemClock), desk.clone())
        .with_workflow::<W5>()?
        .with_edge_observer(move |id, edges| told.moved(id, edges));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.run(async { drop(stopped.await) }).await })
    };
    let client = Person::new("client", ["writer"]);
    for _ in 0..times {
        let id = engine.start(W5::default(), Request::by(&client)).await?.id;
        desk.end(id).await;
    }
    drop(stop);
    working.await??;
    Ok(())
}
