//! Rows of `/v1/stuck` about holds: holds to review, and offboardings that wait for a hold.

use crate::{http::problem::Problem, state::ServerState, types::operations::StuckHold};
use engine::Workflow as _;
use program::encoding::rfc3339::format_time;
use store::Timestamp;
use workflows::{
    offboarding::Offboarding,
    sweeps::{HoldConcern, HoldMatter, hold_matters},
};

/// Everything of holds that a person has to look at.
pub(super) async fn all(app: &ServerState, now: Timestamp) -> Result<Vec<StuckHold>, Problem> {
    Ok(hold_matters(&app.engine).await?.into_iter().map(|matter| row(matter, now)).collect())
}

fn row(matter: HoldMatter, now: Timestamp) -> StuckHold {
    let (workflow, subject, state, next) = match matter.concern {
        HoldConcern::HoldReviewDue => (
            StuckHold::HOLD,
            format!("hold/{}", matter.id),
            "review_due",
            "release it with `tenure hold release ID`, or place the same hold again with a later `--review-at`",
        ),
        HoldConcern::OffboardingHeld => (
            Offboarding::NAME,
            format!("tenant/{}", matter.tenant),
            "held",
            "it continues when its holds are released, each by another person than the one who placed it",
        ),
        HoldConcern::OffboardingUnclassified => (
            Offboarding::NAME,
            format!("tenant/{}", matter.tenant),
            "unclassified",
            "classify the assets that it names, or give the verifier the missing permission; the survey is repeated each day",
        ),
        HoldConcern::OffboardingChanging => (
            Offboarding::NAME,
            format!("tenant/{}", matter.tenant),
            "changing",
            "stop the writes to the tenant's resources, then send the signal writes.stopped; it takes another inventory",
        ),
    };
    StuckHold {
        id: matter.id,
        tenant: matter.tenant.to_string(),
        workflow,
        subject,
        state,
        reason: matter.concern.into(),
        since: format_time(matter.since),
        age_seconds: now.since(matter.since).as_secs(),
        owner: vec!["compliance", "dpo"],
        next,
        message: Some(matter.text),
    }
}
