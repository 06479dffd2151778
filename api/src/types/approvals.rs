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
    /// The digest of the plan; votes are valid for this plan only.
    pub(crate) digest: String,
    #[schemars(with = "Vec<Seat>")]
    pub(crate) seats: Value,
    /// The seats, in words.
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
    /// `enforced`: only votes of separate persons count; `not_enforced`: other votes count too, as in a trial.
    pub(crate) separation: &'static str,
    /// The person who made a break-glass decision.
    pub(crate) broken_by: Option<String>,
    /// Reminders, escalations and break-glass rules.
    #[schemars(with = "Object")]
    pub(crate) procedure: Value,
    /// The history: entries with `at` and `event`.
    #[schemars(with = "Vec<Object>")]
    pub(crate) history: Vec<Value>,
}

/// Seats of approvers.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
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
    /// The creator of the voter's user; `null` for users of an identity provider, or if it was not recorded.
    pub(crate) created_by: Option<String>,
    /// How the voter got the credential: `issued`, `enrolled` or `oidc`; `null` if it was not recorded.
    pub(crate) claim: Option<&'static str>,
    /// The issuer of the credential, or the creator of the one-time code.
    pub(crate) issued_by: Option<String>,
    /// Why the voter is not a separate person although the vote counts; `null` for separate persons.
    pub(crate) not_separate: Option<String>,
    /// True if the voter's user was removed later.
    pub(crate) removed: bool,
    /// The time of the removal; `null` if the user exists, or if it was not recorded.
    #[schemars(with = "Option<Time>")]
    pub(crate) removed_at: Option<String>,
}

/// A break-glass decision to review.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct Review {
    /// The id of the approval.
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
    /// `null` while the review is open.
    outcome: Option<Reviewed>,
}

/// The result of a review.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct Reviewed {
    by: String,
    note: String,
    at: Time,
}
