//! An approval as a document: open for lists, closed as evidence.

use crate::{ApprovalHistoryEntry, Plan, PlanDigest, Procedure, Seat, Vote};
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// An approval as people see it: what is asked, of whom, and how it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// Names it: the execution, a dot, and a number that tells its approvals apart.
    pub id: String,
    /// The execution that waits for it.
    pub execution: ExecutionId,
    /// What it runs.
    pub workflow: String,
    /// Whose it is.
    pub tenant: String,
    /// What it is about.
    pub subject: String,
    /// The state that asks.
    pub state: String,
    /// What will be done.
    pub plan: Plan,
    /// Names exactly that plan; a vote must carry it.
    pub digest: PlanDigest,
    /// Who must agree.
    pub seats: Vec<Seat>,
    /// Who has decided.
    pub votes: Vec<Vote>,
    /// Who asked, and may not decide.
    pub requested_by: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it expires.
    pub deadline: Option<Timestamp>,
    /// `granted`, `refused`, `expired` or `withdrawn`, once it is decided. While the execution is paused it stays open with
    /// its ruling, which takes effect when that is resumed.
    pub ruling: Option<String>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// What else policy says about it.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// What has happened to it beside the votes that stand, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<ApprovalHistoryEntry>,
}

impl ApprovalRecord {
    /// The vote that decided alone, if one did.
    #[must_use]
    pub fn break_glass_vote(&self) -> Option<&Vote> {
        self.votes.iter().find(|vote| vote.break_glass)
    }
}
