//! `cargo bench -p tests --bench load [-- SCENE]`: the engine on the embedded store with journal, leases and index as in production,
//! with the speed of the disk itself in the same run. Counts and ratios may be quoted, single times may not. Scenes:
//!
//! - `five` (or none): five steps one after the other, each result on disk before the next begins; closed loop at 1 to 1,024 in flight, open
//!   loop at half of that throughput; and decisions with many parked. `AT` sets one concurrency, as `compare.sh` does for comparisons. `PARKED`
//!   is the number of waiting executions while decisions are measured (100,000), `SECONDS` the duration of each part (10).
//! - `memory`: the same five steps on the memory store and one core.
//! - `postgres`: the same on a temporary PostgreSQL, at 1 and 128 in flight and at half of the throughput of these.
//! - `waits`: `PARKED` (100,000) wait, a thousand of them are decided, then kill -9 with `WALKING` (10,000) during a step; one row, which
//!   `compare.sh` prints in its comparison.
//! - `restart`: kill -9 with `PARKED` (100,000) that wait for approval and `WALKING` (10,000) during a step; `STAYS=1` also measures the memory
//!   a while later.
//! - `timers`: `TIMERS` (1,000,000) due within one minute.
//! - `space`: `RECORDS` (100,000) written ten times.
//!
//! Each row is added as JSON to the file that `JSON` names.

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod five;
mod flow;
mod house;
mod machine;
mod report;
mod restart;
mod space;
mod timers;

use std::{env, path::Path, process::ExitCode, time::Duration};

/// Returns the number in the environment, or the default.
fn number(name: &str, usual: usize) -> usize {
    match env::var(name).map(|text| text.parse()) {
        Ok(Ok(number)) => number,
        Ok(Err(_)) => panic!("{name} takes a number"),
        Err(_) => usual,
    }
}

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let mut said = env::args().skip(1).filter(|word| word != "--bench");
    let scene = said.next().unwrap_or_else(|| "five".to_owned());
    let dir = tempfile::tempdir().expect("a folder");
    let span = Duration::from_secs(number("SECONDS", 10) as u64);
    let many = || tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let one = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match (scene.as_str(), said.next()) {
        ("five", None) => many().block_on(five::run(dir.path(), span)),
        ("memory", None) => one().block_on(five::in_memory(span)),
        ("postgres", None) => many().block_on(five::on_postgres(span)),
        ("waits", None) => restart::waits(dir.path()),
        ("restart", None) => restart::run(dir.path()),
        ("timers", None) => many().block_on(timers::run(dir.path())),
        ("space", None) => many().block_on(space::run(dir.path())),
        (life @ ("first-life" | "deciding-life"), Some(dir)) => {
            many().block_on(restart::first_life(Path::new(&dir), life == "deciding-life"));
            ExitCode::SUCCESS
        }
        ("second-life", Some(dir)) => {
            many().block_on(restart::second_life(Path::new(&dir)));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "no such scene: {scene}; there are five, memory, postgres, waits, restart, timers and space"
            );
            ExitCode::FAILURE
        }
    }
}
