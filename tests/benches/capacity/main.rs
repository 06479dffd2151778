//! `cargo bench -p tests --bench capacity [-- batches|leases|nodes]`: measures the inputs of the model in `docs/evidence/scale.md`. Prints
//! a line for each input, with its symbol there.

mod batches;
mod cpu;
mod leases;
mod nodes;

use tests::servers::postgres::{Cluster, Disk, installed};

/// Prints one line of the table.
fn say(symbol: &str, value: f64, unit: &str, what: &str) {
    let places = if value.abs() < 10.0 { 3 } else { usize::from(value.abs() < 1_000.0) };
    println!("{symbol:<12} {value:>12.places$} {unit:<10} {what}");
}

fn server() -> Option<Cluster> {
    Some(Cluster::start(installed()?, Disk::Synced).expect("a server"))
}

#[tokio::main]
async fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    let Some(cluster) = server() else { return };
    if is("batches") {
        batches::measure(&cluster).await;
    }
    if is("leases") {
        leases::measure(&cluster).await;
    }
    if is("nodes") {
        nodes::measure(&cluster).await;
    }
}
