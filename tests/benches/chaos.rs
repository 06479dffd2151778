//! `cargo bench -p tests --bench chaos [-- SECONDS]`: 5,000 onboardings and reclaims by three servers on one database, with faults from start to end: at
//! least ten minutes, and longer on a slow machine. Prints the observations; exits non-zero on a violation.

use std::{path::Path, process::ExitCode, time::Duration};
use tests::{
    campaigns::chaos::{Size, Wanted, run},
    servers::postgres::{Cluster, Disk, installed},
};

/// For all 5,000; smaller runs take less.
const SECONDS: usize = 600;

#[tokio::main]
async fn main() -> ExitCode {
    let (Some(bin), Ok(dir)) = (installed(), tempfile::tempdir()) else { return ExitCode::FAILURE };
    let seconds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(SECONDS);
    let cluster = match Cluster::start(bin, Disk::Synced) {
        Ok(cluster) => cluster,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let share = |of_all: usize| of_all * seconds / SECONDS;
    let size = Size {
        wanted: Wanted { onboardings: share(2_000), reclaims: share(3_000), lenders: 80, at_once: 40 },
        trouble: Duration::from_secs(seconds as u64),
        every: Duration::from_secs(1)..Duration::from_secs(6),
        database: Duration::from_secs(5)..Duration::from_secs(40),
    };
    let (tenure, world) = (env!("CARGO_BIN_EXE_tenure-under-test"), env!("CARGO_BIN_EXE_world"));
    let outcome = run(Path::new(tenure), Path::new(world), dir.path(), cluster, size, 11).await;
    println!("{outcome}");
    if outcome.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
