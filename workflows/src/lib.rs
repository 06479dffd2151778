//! The lifecycle of GPU tenants as durable state machines.
//!
//! [`onboarding`] is a good workflow to read first. Workflows decide with [`policy`] and [`placement`], and write to [`ledger`] and [`tenancy`].
//! External calls go through a [`Platform`] in [`platform`], which the `backends` implement. [`fleet`] imports the inventory; `simulator` tests
//! failures. This crate does not use HTTP.

pub mod audit;
pub mod capacity;
pub mod closed_tenants;
pub mod destruction;
pub mod duration;
pub mod fleet;
pub mod foreign_text;
pub mod incident;
pub mod ledger;
pub mod notices;
pub mod observed;
pub mod offboarding;
pub mod onboarding;
pub mod placement;
pub mod platform;
pub mod policy;
pub mod quota_change;
pub mod reclaim;
pub mod scheduling;
pub mod signing;
pub mod sla_change;
pub mod sweeps;
pub mod tenancy;
pub mod usage_statement;
pub mod workload_start;
pub mod yaml;

#[cfg(test)]
mod tests;

use capacity::CapacityExhaustion;
use engine::{Engine, InvalidWorkflow};
use incident::IncidentResponse;
use offboarding::Offboarding;
use onboarding::Onboarding;
use platform::Platform;
use quota_change::decrease::QuotaDecrease;
use quota_change::increase::QuotaIncrease;
use reclaim::Reclaim;
use sla_change::SlaChange;
use workload_start::WorkloadStart;

/// Returns the engine with every workflow of Tenure. [`Reclaim`] includes its evictions, [`Offboarding`] the sanitisation of nodes.
///
/// They are registered here, so that their code is compiled only once.
///
/// # Errors
/// The invalid workflow and its problem.
pub fn registered(engine: Engine<Platform>) -> Result<Engine<Platform>, InvalidWorkflow> {
    engine
        .with_workflow::<Onboarding>()?
        .with_workflow::<Offboarding>()?
        .with_workflow::<QuotaIncrease>()?
        .with_workflow::<QuotaDecrease>()?
        .with_workflow::<SlaChange>()?
        .with_workflow::<CapacityExhaustion>()?
        .with_workflow::<IncidentResponse>()?
        .with_workflow::<WorkloadStart>()?
        .with_workflow::<Reclaim>()
}
