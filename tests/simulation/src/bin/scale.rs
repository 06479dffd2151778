//! A thousand nodes on one database, simulated: `cargo run --release -p simulation --bin scale -- --nodes 1000 --executions 10000000
//! --minutes 10 --seed 1`. Exits with 1 if a law was broken.

use simulation::scale::{Size, parse, run};
use std::{process::ExitCode, time::Instant};

fn main() -> ExitCode {
    let size: Size = match parse(std::env::args().skip(1)) {
        Ok(size) => size,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    println!("{size:?}");
    let began = Instant::now();
    let told = run(&size);
    println!("{told}");
    println!("in {:.1} s, {} MiB at the most", began.elapsed().as_secs_f64(), most_memory() >> 20);
    if told.broken_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the peak memory of this process, in bytes.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
