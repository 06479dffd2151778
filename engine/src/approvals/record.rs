//! An approval as a document: open for lists, closed as evidence.

use crate::{ApprovalHistoryEntry, Plan, PlanDigest, Procedure, Seat, Vote};
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// An approval, for display: its plan, its seats and its votes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The id: the execution, a dot, and a number that is unique within the execution.
    pub id: String,
    /// The execution that waits for it.
    pub execution: ExecutionId,
    /// The workflow.
    pub workflow: String,
    /// The tenant.
    pub tenant: String,
    /// The subject.
    pub subject: String,
    /// The approval state.
    pub state: String,
    /// The plan.
    pub plan: Plan,
    /// The digest of the plan. A vote must contain it.
    pub digest: PlanDigest,
    /// The seats.
    pub seats: Vec<Seat>,
    /// The votes.
    pub votes: Vec<Vote>,
    /// The requester, who cannot vote.
    pub requested_by: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it expires.
    pub deadline: Option<Timestamp>,
    /// `granted`, `refused`, `expired` or `withdrawn`, once it is decided. While the execution is paused, the
    /// approval stays open with its ruling, which takes effect on resume.
    pub ruling: Option<String>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Escalations, extension, reminders and break-glass.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// Changes other than votes, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<ApprovalHistoryEntry>,
}

impl ApprovalRecord {
    /// Returns the break-glass vote, if there is one.
    #[must_use]
    pub fn break_glass_vote(&self) -> Option<&Vote> {
        self.votes.iter().find(|vote| vote.break_glass)
    }
}
