//! `cargo bench -p tests --bench large_tenants`: a tenant of 100, 1,000 and 4,000 nodes is onboarded, grows by a quarter and is offboarded
//! with a certificate. Prints the cost of a node in time, rows and bytes for each part. `NODES="100 600"` sets other sizes. Fails when a
//! node of the largest tenant costs more than 1.3 times the written bytes or the time of a node of the smallest, over its whole life.

use simulator::large_tenants::{PartOfLife, life_of_tenant};
use std::process::ExitCode;

/// The maximum ratio of a node's cost in the largest and the smallest tenant.
const RATIO: f64 = 1.3;

/// Returns the seconds and the written bytes for each node of the tenant at its end.
fn per_node(life: &[PartOfLife]) -> (f64, f64) {
    let nodes = f64::from(life.iter().map(|part| part.nodes).max().unwrap_or(1));
    let seconds: f64 = life.iter().map(|part| part.seconds).sum();
    let bytes: u64 = life.iter().map(|part| part.counts.bytes_written).sum();
    (seconds / nodes, bytes as f64 / nodes)
}

fn main() -> ExitCode {
    let sizes = std::env::var("NODES").unwrap_or_else(|_| "100 1000 4000".into());
    let sizes: Vec<u32> = sizes.split_whitespace().map(|size| size.parse().expect("NODES")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut costs = Vec::new();
    for nodes in sizes {
        let life = runtime.block_on(life_of_tenant(nodes, nodes / 4)).expect("a life to its end");
        life.iter().for_each(|part| println!("{part}"));
        costs.push((nodes, per_node(&life)));
    }
    let (Some((few, small)), Some((many, large))) = (costs.first(), costs.last()) else {
        return ExitCode::FAILURE;
    };
    let (time, bytes) = (large.0 / small.0, large.1 / small.1);
    println!(
        "a node of {many} beside one of {few}: {time:.2} times the time, {bytes:.2} times the bytes written"
    );
    if time <= RATIO && bytes <= RATIO { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
