//! A schedule that starts an execution every hour. A manual clock makes the hours pass.

use engine::*;
use std::sync::Arc;

#[allow(dead_code, unreachable_pub, reason = "only the workflow of this example is used")]
#[path = "hello.rs"]
mod hello;

/// Sets an hourly schedule, and lets three hours pass. A server calls `run_schedule` in a loop.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Arc::new(ManualClock::starting_at(store::Timestamp(1_800_000_000_000)));
    let engine = Engine::new(Arc::new(store::Memory::new()), clock.clone(), ());
    let engine = engine.with_workflow::<hello::Hello>()?;

    let start = Target::Start { workflow: hello::Hello::NAME.into(), data: serde_json::json!("world") };
    engine.set_schedule(Schedule::new("hourly", "0 * * * *", "UTC", start), "ada", None).await?;
    for _ in 0..3 {
        clock.advance(HOUR);
        let run = engine.run_schedule("hourly", &engine).await?;
        engine.run_until_idle().await?;
        println!("{} started", run.started.len());
    }
    Ok(())
}
