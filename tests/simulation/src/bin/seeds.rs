//! Runs seeds: `cargo run -p simulation --bin seeds -- --seeds 1000`, or a single one: `-- --seed 17`.

use simulation::report::{Wanted, parse, play_many};
use std::{process::ExitCode, time::Instant};

fn main() -> ExitCode {
    let wanted = match parse(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    match wanted {
        Wanted::One(case) => {
            let verdict = simulation::play(&case);
            verdict.history.iter().for_each(|line| println!("{line}"));
            println!("{} events, {} troubles, ends {:?}", verdict.events, verdict.troubles, verdict.ends);
            let mut broken = verdict.broken;
            if broken.is_empty() {
                broken = simulation::disk::cut_power(case.seed);
            }
            broken.iter().for_each(|law| println!("broken: {law}"));
            if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Wanted::Many(first, count) => {
            let sum = play_many(first, count, |_| vec![]);
            println!("{sum}");
            println!("in {:.1} s", began.elapsed().as_secs_f64());
            match sum.failed {
                Some(told) => {
                    println!("{told}");
                    ExitCode::FAILURE
                }
                None => ExitCode::SUCCESS,
            }
        }
    }
}
