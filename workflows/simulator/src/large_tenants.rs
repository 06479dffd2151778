//! The lifecycle of a tenant with thousands of nodes, with its cost per node: onboarding, growth and offboarding, on a
//! store that rejects rows of more than 64 KiB.
//!
//! Called by `cargo bench -p tests --bench large_tenants` and by the tests below. Invariant: counts are exact and equal
//! in each run; durations vary.

mod counted;
mod stage;
#[cfg(test)]
mod tests;

pub use counted::RowCounts;

use engine::{Entity as _, Stopwatch};
use stage::Stage;
use std::fmt;
use workflows::destruction::certificate::StoredCertificate;

/// The error of a run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The cost of one part of the lifecycle.
#[derive(Clone, Debug)]
pub struct PartOfLife {
    /// `onboarding`, `growth` or `offboarding`.
    pub name: &'static str,
    /// The number of nodes.
    pub nodes: u32,
    /// The duration.
    pub seconds: f64,
    /// Read and written rows.
    pub counts: RowCounts,
}

impl PartOfLife {
    /// Returns `count` per node.
    #[must_use]
    pub fn per_node(&self, count: u64) -> f64 {
        count as f64 / f64::from(self.nodes.max(1))
    }
}

impl fmt::Display for PartOfLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        write!(
            f,
            "{:<11} {:>5} nodes: for each {:>8.2} ms, {:>6.1} commits, {:>7.1} rows and {:>9.0} bytes read, {:>6.1} rows and {:>8.0} \
             bytes written; largest row {} bytes",
            self.name,
            self.nodes,
            self.seconds * 1_000.0 / f64::from(self.nodes.max(1)),
            self.per_node(counts.commits),
            self.per_node(counts.rows_read),
            self.per_node(counts.bytes_read),
            self.per_node(counts.rows_written),
            self.per_node(counts.bytes_written),
            counts.largest_row,
        )
    }
}

/// Onboards a tenant of `nodes` nodes, grows it by `more` nodes, and offboards it with a certificate.
///
/// # Errors
///
/// If a part ends in another state, or an execution waits for an operator.
pub async fn life_of_tenant(nodes: u32, more: u32) -> Result<Vec<PartOfLife>, Failure> {
    let stage = Stage::with_nodes(nodes, more).await?;
    let (mut parts, mut before) = (Vec::new(), stage.store.counts());
    for name in ["onboarding", "growth", "offboarding"] {
        let watch = Stopwatch::start();
        let nodes = match name {
            "onboarding" => stage.onboard(nodes).await.map(|()| nodes)?,
            "growth" => stage.grow(more).await.map(|()| more)?,
            _ => stage.offboard().await.map(|()| nodes + more)?,
        };
        let (seconds, after) = (watch.elapsed().as_secs_f64(), stage.store.counts());
        parts.push(PartOfLife { name, nodes, seconds, counts: after.since(&before) });
        before = after;
    }
    let certificates =
        stage.engine.store().documents(StoredCertificate::COLLECTION, "", None, 10).await?.items.len();
    let parked = stage.parked().await?;
    if (certificates, parked) != (1, 0) {
        return Err(format!("{certificates} certificates, {parked} executions parked").into());
    }
    Ok(parts)
}
