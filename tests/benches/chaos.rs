//! `cargo bench -p tests --bench chaos [-- SECONDS]`: 300 tenants on three servers and one database, with trouble for ten minutes.
//! Prints what was seen; exits non-zero if anything was not as promised.

use std::{path::Path, process::ExitCode, time::Duration};
use tests::{
    campaign::Size,
    chaos::run,
    postgres::{Cluster, Disk, installed},
};

#[tokio::main]
async fn main() -> ExitCode {
    let (Some(bin), Ok(dir)) = (installed(), tempfile::tempdir()) else { return ExitCode::FAILURE };
    let seconds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(600);
    let mut cluster = match Cluster::start(bin, Disk::Synced) {
        Ok(cluster) => cluster,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let size = Size {
        tenants: 300,
        nodes: 1_000,
        killing: Duration::from_secs(seconds),
        every: Duration::from_secs(5),
        rest: Duration::from_secs(300),
    };
    let (tenure, world) = (env!("CARGO_BIN_EXE_tenure-under-test"), env!("CARGO_BIN_EXE_world"));
    let (outcome, troubles) =
        run(Path::new(tenure), Path::new(world), dir.path(), &mut cluster, size, 11).await;
    println!("{outcome}\n  {troubles:?}");
    if outcome.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
