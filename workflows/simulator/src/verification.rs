//! Verification for `tenure workflow verify` and the test suite: runs every workflow in small scenarios with all
//! injected faults.
//!
//! [`engine::testing`] injects the faults. This module has the scenarios and selects the state that must be restored.

mod capacity_exhaustion;
mod certificate_sentences;
mod fixture;
mod incident_response;
mod node_sanitisation;
mod offboarding;
mod onboarding;
mod quota_changes;
mod reclaim;
mod workload_start;

pub use capacity_exhaustion::capacity_exhaustion;
pub use certificate_sentences::{SentenceReport, SentenceWorlds};
pub use incident_response::incident_response;
pub use node_sanitisation::node_sanitisation;
pub use offboarding::{Ready, left_behind, offboarding, ready};
pub use onboarding::onboarding;
pub use quota_changes::{quota_decrease, quota_increase, sla_change};
pub use reclaim::{reclaim, reclaim_and_eviction};
pub use workload_start::workload_start;

use engine::{Error, Workflow as _, testing::Report};
use std::{future::Future, pin::Pin};
use workflows::{
    capacity::CapacityExhaustion,
    incident::IncidentResponse,
    offboarding::{Offboarding, node_sanitisation::NodeSanitisation},
    onboarding::Onboarding,
    quota_change::{decrease::QuotaDecrease, increase::QuotaIncrease},
    reclaim::{Reclaim, eviction::Eviction},
    sla_change::SlaChange,
    workload_start::WorkloadStart,
};

type Reports = Pin<Box<dyn Future<Output = Result<Vec<Report>, Error>>>>;

/// The scenarios of one or more workflows.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    /// The verified workflows.
    pub workflows: &'static [&'static str],
    run: fn() -> Reports,
}

/// All proofs. Each registered workflow has its own report in one of them.
const PROOFS: &[Proof] = &[
    Proof { workflows: &[Onboarding::NAME], run: || one(onboarding()) },
    Proof { workflows: &[QuotaIncrease::NAME], run: || one(quota_increase()) },
    Proof { workflows: &[QuotaDecrease::NAME], run: || one(quota_decrease()) },
    Proof { workflows: &[SlaChange::NAME], run: || one(sla_change()) },
    Proof { workflows: &[Offboarding::NAME], run: || one(offboarding()) },
    Proof { workflows: &[NodeSanitisation::NAME], run: || one(node_sanitisation()) },
    Proof { workflows: &[Reclaim::NAME, Eviction::NAME], run: || two(reclaim_and_eviction()) },
    Proof { workflows: &[CapacityExhaustion::NAME], run: || one(capacity_exhaustion()) },
    Proof { workflows: &[IncidentResponse::NAME], run: || one(incident_response()) },
    Proof { workflows: &[WorkloadStart::NAME], run: || one(workload_start()) },
];

fn one(report: impl Future<Output = Result<Report, Error>> + 'static) -> Reports {
    Box::pin(async move { Ok(vec![report.await?]) })
}

fn two(reports: impl Future<Output = Result<(Report, Report), Error>> + 'static) -> Reports {
    Box::pin(async move {
        let (first, second) = reports.await?;
        Ok(vec![first, second])
    })
}

/// Returns the proof for the workflow `name`, if there is one.
#[must_use]
pub fn of(name: &str) -> Option<&'static Proof> {
    PROOFS.iter().find(|proof| proof.workflows.contains(&name))
}

impl Proof {
    /// Verifies its workflows with all faults of the engine, and returns a report for each, in order.
    ///
    /// # Errors
    ///
    /// If a scenario cannot be created.
    pub async fn run(&self) -> Result<Vec<Report>, Error> {
        let mut reports = (self.run)().await?;
        for (report, name) in reports.iter_mut().zip(self.workflows) {
            if report.workflow != *name {
                report.violations.push(format!("the report is about {}, not about {name}", report.workflow));
            }
        }
        Ok(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backends::simulated::{LocalWorld, simulated_platform};
    use engine::{Engine, SystemClock};
    use std::sync::Arc;
    use store::Memory;

    #[test]
    fn every_registered_workflow_has_exactly_one_proof() {
        let platform = simulated_platform(Arc::new(LocalWorld::new()));
        let engine = Engine::new(Arc::new(Memory::new()), Arc::new(SystemClock), platform);
        let mut registered: Vec<String> = workflows::registered(engine)
            .unwrap()
            .diagrams()
            .into_iter()
            .map(|drawn| drawn.workflow)
            .collect();
        let mut proven: Vec<&str> = PROOFS.iter().flat_map(|proof| proof.workflows).copied().collect();
        registered.sort();
        proven.sort_unstable();
        assert_eq!(proven, registered, "give each workflow a world in `PROOFS`");
    }
}
