//! The long run: `cargo run --release -p tests --bin soak -- --seeds 100000`.
//!
//! Every seed is a simulation of the whole engine. Some seeds also cut the power under a real store, and some lend and
//! reclaim GPUs on a failing platform. The first seed that breaks an invariant ends the run; it is minimised and printed with
//! the command that repeats it.

use simulation::report::{Wanted, parse, play_many};
use std::{process::ExitCode, time::Instant};

/// A world of lending takes about as long as ten simulations of the engine.
const LEND_EVERY: u64 = 8;

fn main() -> ExitCode {
    let wanted = match parse(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let (first, count) = match wanted {
        Wanted::Many(first, count) => (first, count),
        Wanted::One(case) => (case.seed, 1),
    };
    let began = Instant::now();
    let sum = play_many(first, count, lend);
    println!("{sum}");
    println!("in {:.1} s, {} worlds of lending", began.elapsed().as_secs_f64(), count / LEND_EVERY);
    match sum.failed {
        Some(told) => {
            println!("{told}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

fn lend(seed: u64) -> Vec<String> {
    if !seed.is_multiple_of(LEND_EVERY) {
        return Vec::new();
    }
    let (_, outcome) = tests::traces::run(seed);
    let told = |violation| {
        format!("lending: {violation:?}; `cargo bench -p tests --bench traces -- {seed} 1` plays it again")
    };
    outcome.violations.into_iter().map(told).collect()
}
