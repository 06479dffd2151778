//! The review of a decision that somebody took alone. Pure.

use crate::{
    ActionError, ApprovalRecord, Entity, PlanDigest, Provenance, Vote, VoteDelegation,
    model::documents::collection,
};
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// A decision that one person took alone, on a list until somebody else has reviewed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The approval.
    pub approval: String,
    /// The execution that went on.
    pub execution: ExecutionId,
    /// What it runs.
    pub workflow: String,
    /// Whose it is.
    pub tenant: String,
    /// What it is about.
    pub subject: String,
    /// What was decided, in a line.
    pub title: String,
    /// The plan.
    pub digest: PlanDigest,
    /// Who asked for it.
    pub requested_by: String,
    /// Who decided alone.
    pub by: String,
    /// Where the credential came from by which they did; none where that was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_from: Option<Provenance>,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// What came of the review, once there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Reviewed>,
}

/// What somebody else says of a decision taken alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reviewed {
    /// Who.
    pub by: String,
    /// What they found.
    pub note: String,
    /// When.
    pub at: Timestamp,
}

impl Entity for Review {
    const COLLECTION: &'static str = collection::REVIEWS;
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.approval.clone()
    }
}

/// A [`Review`] that is done, kept for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReviewDone(pub Review);

impl Entity for ReviewDone {
    const COLLECTION: &'static str = collection::REVIEWED;
    const RETENTION: crate::Retention<Self> = crate::Retention::Forever;

    fn id(&self) -> String {
        self.0.approval.clone()
    }
}

impl Review {
    pub(crate) fn from_vote(case: &ApprovalRecord, vote: &Vote) -> Self {
        Self {
            approval: case.id.clone(),
            execution: case.execution,
            workflow: case.workflow.clone(),
            tenant: case.tenant.clone(),
            subject: case.subject.clone(),
            title: case.plan.title.clone(),
            digest: case.digest.clone(),
            requested_by: case.requested_by.clone(),
            by: vote.person.name.clone(),
            decided_from: vote.person.provenance.as_deref().cloned(),
            reason: vote.reason.clone(),
            at: vote.at,
            outcome: None,
        }
    }

    /// The review, done by `by` with this `note`. `mandates` are the delegations to them.
    ///
    /// # Errors
    /// `review.own` for who broke the glass, who asked, and whoever has stood in for either since; `review.note_missing`.
    pub fn complete(
        mut self,
        by: &str,
        mandates: &[VoteDelegation],
        note: &str,
        at: Timestamp,
    ) -> Result<ReviewDone, ActionError> {
        for party in [&self.by, &self.requested_by] {
            let stands = |mandate: &VoteDelegation| {
                mandate.from == *party && mandate.to == by && mandate.touches(self.at, at)
            };
            if by == party || mandates.iter().any(stands) {
                let why = format!(
                    "{by} cannot review this: {} broke the glass and {} asked for it; somebody else must",
                    self.by, self.requested_by
                );
                return Err(ActionError::permanent("review.own", why));
            }
        }
        if note.trim().is_empty() {
            return Err(ActionError::permanent("review.note_missing", "note: say what you found"));
        }
        self.outcome = Some(Reviewed { by: by.into(), note: note.into(), at });
        Ok(ReviewDone(self))
    }
}
