//! The lifecycle of GPU tenants as durable state machines.
//!
//! [`onboarding`] is the machine that reads top to bottom. What it decides by is in [`policy`] and [`placement`], what it
//! writes down in [`ledger`] and [`tenancy`], and what it does outside in [`actuators`], on a [`Platform`](actuators::Platform) that the
//! [`backends`] serve. [`fleet`] brings the inventory in; [`proof`] tries it
//! all in every way that can go wrong. This crate knows no HTTP.

pub mod actuators;
pub mod admission;
pub mod audit;
pub mod backends;
pub mod capacity_exhaustion;
pub mod destruction;
pub mod duration;
pub mod eviction;
pub mod fleet;
pub mod incident_response;
pub mod ledger;
pub mod notices;
pub mod offboarding;
pub mod onboarding;
pub mod placement;
pub mod policy;
pub mod proof;
pub mod qualification;
pub mod quota_decrease;
pub mod quota_increase;
pub mod quotas;
pub mod reclaim;
pub mod sanitisation;
pub mod simulate;
pub mod sla_change;
pub mod statement;
pub mod sweeps;
pub mod tenancy;

use actuators::Platform;
use capacity_exhaustion::CapacityExhaustion;
use engine::{Engine, Unsound};
use incident_response::IncidentResponse;
use offboarding::Offboarding;
use onboarding::Onboarding;
use quota_decrease::QuotaDecrease;
use quota_increase::QuotaIncrease;
use reclaim::Reclaim;
use sla_change::SlaChange;

/// The engine with every workflow of the product; [`Reclaim`] brings its evictions along, [`Offboarding`] the sanitisation of nodes.
///
/// They are put together here, so that their code is compiled once and not by everyone who runs them.
///
/// # Errors
/// What is wrong with a machine.
pub fn registered(engine: Engine<Platform>) -> Result<Engine<Platform>, Unsound> {
    engine
        .with::<Onboarding>()?
        .with::<Offboarding>()?
        .with::<QuotaIncrease>()?
        .with::<QuotaDecrease>()?
        .with::<SlaChange>()?
        .with::<CapacityExhaustion>()?
        .with::<IncidentResponse>()?
        .with::<Reclaim>()
}
