//! The lifecycle of GPU tenants as durable state machines.
//!
//! [`onboarding`] is the machine that reads top to bottom. What it decides by is in [`policy`] and [`placement`], what it
//! writes down in [`ledger`] and [`tenancy`], and what it does outside in [`platform`], on a [`Platform`] that the
//! `backends` serve. [`fleet`] brings the inventory in; `simulator` tries it
//! all in every way that can go wrong. This crate knows no HTTP.

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

/// The engine with every workflow of the product; [`Reclaim`] brings its evictions along, [`Offboarding`] the sanitisation of nodes.
///
/// They are put together here, so that their code is compiled once and not by everyone who runs them.
///
/// # Errors
/// What is wrong with a machine.
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
