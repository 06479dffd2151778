//! Reviews of break-glass. Pure.

use crate::{
    ActionError, ApprovalRecord, Entity, PlanDigest, Provenance, Vote, VoteDelegation,
    model::documents::collection,
};
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// A break-glass decision, listed until another person has reviewed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The approval.
    pub approval: String,
    /// The execution.
    pub execution: ExecutionId,
    /// The workflow.
    pub workflow: String,
    /// The tenant.
    pub tenant: String,
    /// The subject.
    pub subject: String,
    /// The title of the plan.
    pub title: String,
    /// The digest of the plan.
    pub digest: PlanDigest,
    /// The requester.
    pub requested_by: String,
    /// The person who used break-glass.
    pub by: String,
    /// The origin of that person's credential; `None` if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_from: Option<Provenance>,
    /// The reason.
    pub reason: String,
    /// The time of the decision.
    pub at: Timestamp,
    /// The result of the review, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Reviewed>,
}

/// The result of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reviewed {
    /// The reviewer.
    pub by: String,
    /// The findings.
    pub note: String,
    /// The time of the review.
    pub at: Timestamp,
}

impl Entity for Review {
    const COLLECTION: &'static str = collection::REVIEWS;
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.approval.clone()
    }
}

/// A completed [`Review`], retained forever.
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

    /// Completes the review by `by`, with this `note`. `mandates` are the delegations to them.
    ///
    /// # Errors
    /// Returns `review.own` for the person who used break-glass, the requester, and anyone who had a delegation from
    /// them since; `review.note_missing` without a note.
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
                    "{by} cannot review this: {} used break-glass and {} requested it; another person must review it",
                    self.by, self.requested_by
                );
                return Err(ActionError::permanent("review.own", why));
            }
        }
        if note.trim().is_empty() {
            return Err(ActionError::permanent("review.note_missing", "note: describe your findings"));
        }
        self.outcome = Some(Reviewed { by: by.into(), note: note.into(), at });
        Ok(ReviewDone(self))
    }
}
