//! Rows of `/v1/stuck` that are of closed tenants: something of them is there, or a source does not say.

use crate::{http::problem::Problem, state::ServerState, types::schedules::StuckClosedTenant};
use program::encoding::rfc3339::format_time;
use store::Timestamp;
use workflows::closed_tenants::{ClosedConcern, ClosedTenantMatter, closed_tenant_matters};

/// Every closed tenant that a person has to look at.
pub(super) async fn all(app: &ServerState, now: Timestamp) -> Result<Vec<StuckClosedTenant>, Problem> {
    let matters = closed_tenant_matters(&app.engine).await?;
    Ok(matters.into_iter().map(|matter| row(matter, now)).collect())
}

fn row(matter: ClosedTenantMatter, now: Timestamp) -> StuckClosedTenant {
    let next = match matter.concern {
        ClosedConcern::ClosedTenantFound => {
            "list the objects with `tenure closed-tenants show ID`; if a certificate is wrong, withdraw it with `tenure certificate withdraw`; offboard the objects with `tenure tenant offboard ID --remaining`"
        }
        ClosedConcern::ClosedTenantUnanswered => {
            "make the named systems available, then run `tenure sweep run drift`; until then, their objects are unknown"
        }
    };
    StuckClosedTenant {
        id: matter.tenant.to_string(),
        tenant: matter.tenant.to_string(),
        workflow: StuckClosedTenant::CLOSED_TENANT,
        subject: format!("tenant/{}", matter.tenant),
        state: "closed",
        reason: matter.concern.into(),
        since: format_time(matter.since),
        age_seconds: now.since(matter.since).as_secs(),
        owner: vec!["compliance", "dpo", "platform_ops"],
        next,
        message: Some(matter.text),
    }
}
