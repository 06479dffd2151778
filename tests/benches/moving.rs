//! `cargo bench -p tests --bench moving [-- COUNT]`: 10,000 open executions in every condition are exported from the embedded
//! store, imported into PostgreSQL, and run to their ends. An unmoved twin and one that moves back half way are compared with
//! them. Prints counts by condition, bytes, the duration of each part and the downtime.

use std::process::ExitCode;
use store::postgres::PostgresOptions;
use tests::{
    campaigns::moving,
    servers::postgres::{Cluster, Disk, installed},
};

#[tokio::main]
async fn main() -> ExitCode {
    let Some(bin) = installed() else { return ExitCode::SUCCESS };
    let count = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(10_000);
    let cluster = Cluster::start(bin, Disk::Synced).expect("a server");
    let dir = tempfile::tempdir().expect("a folder");
    let moved = moving::run(dir.path(), &PostgresOptions::for_url(cluster.url()), count).await;
    println!("{moved}");
    if moved.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
