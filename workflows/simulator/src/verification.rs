//! The proof behind `tenure workflow verify` and the suite: every workflow, run in small worlds with everything made to go wrong.
//!
//! What is done to a run is [`engine::testing`]'s; here are the worlds, and what of them must be as before.

mod capacity_exhaustion;
mod fixture;
mod incident_response;
mod node_sanitisation;
mod offboarding;
mod onboarding;
mod quota_changes;
mod reclaim;

pub use capacity_exhaustion::capacity_exhaustion;
pub use incident_response::incident_response;
pub use node_sanitisation::node_sanitisation;
pub use offboarding::{Ready, left_behind, offboarding, ready};
pub use onboarding::onboarding;
pub use quota_changes::{quota_decrease, quota_increase, sla_change};
pub use reclaim::reclaim;

use engine::{Error, Workflow as _, testing::Report};
use workflows::{
    capacity::CapacityExhaustion,
    incident::IncidentResponse,
    offboarding::{Offboarding, node_sanitisation::NodeSanitisation},
    onboarding::Onboarding,
    quota_change::{decrease::QuotaDecrease, increase::QuotaIncrease},
    reclaim::Reclaim,
    sla_change::SlaChange,
};

/// Tries the workflow called `name` in every way that the engine knows; `None` when there is none of the name.
///
/// # Errors
/// When a world cannot be set up.
pub async fn of(name: &str) -> Result<Option<Report>, Error> {
    Ok(Some(match name {
        Onboarding::NAME => onboarding().await?,
        QuotaIncrease::NAME => quota_increase().await?,
        QuotaDecrease::NAME => quota_decrease().await?,
        SlaChange::NAME => sla_change().await?,
        Offboarding::NAME => offboarding().await?,
        NodeSanitisation::NAME => node_sanitisation().await?,
        Reclaim::NAME => reclaim().await?,
        CapacityExhaustion::NAME => capacity_exhaustion().await?,
        IncidentResponse::NAME => incident_response().await?,
        _ => return Ok(None),
    }))
}
