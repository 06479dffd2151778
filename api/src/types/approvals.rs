//! Approvals, votes and reviews.

use super::{Object, Time, executions::Plan};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// An approval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Approval {
    pub(crate) id: String,
    pub(crate) execution: String,
    pub(crate) workflow: String,
    pub(crate) tenant: String,
    pub(crate) subject: String,
    pub(crate) state: String,
    pub(crate) title: String,
    #[schemars(with = "Plan")]
    pub(crate) plan: Value,
    /// Votes carry it, and count for this plan alone.
    pub(crate) digest: String,
    #[schemars(with = "Vec<Seat>")]
    pub(crate) seats: Value,
    /// The seats in words.
    pub(crate) wanted: String,
    pub(crate) votes: Vec<Cast>,
    pub(crate) requested_by: String,
    #[schemars(with = "Time")]
    pub(crate) opened_at: String,
    #[schemars(with = "Option<Time>")]
    pub(crate) deadline: Option<String>,
    pub(crate) ruling: Option<String>,
    pub(crate) takes_effect: Option<&'static str>,
    #[schemars(with = "Option<Time>")]
    pub(crate) closed_at: Option<String>,
    /// `enforced`: people count who are separate from each other and from who asked; `not_enforced`: others count too, as in a trial.
    pub(crate) separation: &'static str,
    /// Who decided alone.
    pub(crate) broken_by: Option<String>,
    /// Reminders, escalations and who may decide alone.
    #[schemars(with = "Object")]
    pub(crate) procedure: Value,
    /// What happened to it: each with `at` and `event`.
    #[schemars(with = "Vec<Object>")]
    pub(crate) history: Vec<Value>,
}

/// Seats of people who must agree.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Seat {
    /// Roles, or groups as `group:NAME`.
    any_of: Vec<String>,
    count: u32,
}

/// A vote.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Vote")]
pub(crate) struct Cast {
    pub(crate) person: String,
    /// `approve` or `refuse`.
    #[schemars(with = "String")]
    pub(crate) verdict: Value,
    pub(crate) on_behalf_of: Option<String>,
    pub(crate) break_glass: bool,
    pub(crate) reason: String,
    #[schemars(with = "Time")]
    pub(crate) at: String,
    /// Who created the voter's user; `null` if an identity provider did, or it was not written down.
    pub(crate) created_by: Option<String>,
    /// How the voter came to the credential: `issued`, `enrolled` or `oidc`; `null` if it was not written down.
    pub(crate) claim: Option<&'static str>,
    /// Who issued the credential, or made the code by which it was claimed.
    pub(crate) issued_by: Option<String>,
    /// Why it is not the vote of another person, though it counts; `null` where it is.
    pub(crate) not_separate: Option<String>,
    /// The voter's user was removed since.
    pub(crate) removed: bool,
    /// When; `null` while the user is there, or where an earlier version did not write it down.
    #[schemars(with = "Option<Time>")]
    pub(crate) removed_at: Option<String>,
}

/// What somebody decided alone, for others to review.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Review {
    /// The approval's.
    id: String,
    execution: String,
    workflow: String,
    tenant: String,
    subject: String,
    title: String,
    digest: String,
    requested_by: String,
    by: String,
    reason: String,
    at: Time,
    /// `null` while it waits.
    outcome: Option<Reviewed>,
}

/// What came of a review.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Reviewed {
    by: String,
    note: String,
    at: Time,
}
