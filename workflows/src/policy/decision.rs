//! A recorded decision of policy, with its facts and rules, so that it can be repeated with the same result (I-20).

use super::{OnboardingRequest, Origin, PolicyRef, Preflight, sha256};
use crate::placement::Candidate;
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// A decision of policy. Never rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The requesting execution.
    pub execution: ExecutionId,
    /// The policy in force.
    pub policy: PolicyRef,
    /// All facts of the decision.
    pub facts: OnboardingFacts,
    /// SHA-256 of the facts.
    pub facts_digest: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that led to it.
    pub reasons: Vec<Reason>,
    /// The time of the decision.
    pub at: Timestamp,
}

impl Entity for Decision {
    const COLLECTION: &'static str = "decisions";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.execution.to_string()
    }
}

/// All facts of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingFacts {
    /// The request.
    pub request: OnboardingRequest,
    /// True if another tenant has the name.
    pub name_in_use: bool,
    /// The clusters, with their GPUs of the model.
    pub candidates: Vec<Candidate>,
    /// The day, and any earlier use of the name. `None` in decisions of earlier versions and in examples of a policy; the rules about them do not apply there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// Rejected; an approval cannot change it.
    Rejected,
    /// Accepted without an approval.
    SelfService,
    /// Accepted if approvers agree.
    NeedsApproval,
}

/// The judgement of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The rule is satisfied.
    Passed,
    /// The rule forbids the request.
    Failed,
    /// The rule requires an approval.
    AsksPeople,
    /// The request is allowed, but may be a mistake.
    Warns,
}

/// The part of one rule in a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The rule.
    pub rule: String,
    /// The judgement.
    pub verdict: Judgement,
    /// The facts behind it.
    pub detail: String,
    /// The line of the request that it concerns, if known.
    pub line: Option<u64>,
    /// The place of the rule in the policy; `None` for rules of every policy, such as unique names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Origin>,
}

impl Reason {
    /// Returns the finding with its place in the policy.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.by {
            Some(by) => format!("{} ({}, {by})", self.detail, self.rule),
            None => format!("{} ({})", self.detail, self.rule),
        }
    }

    /// Returns true if it affected the verdict.
    #[must_use]
    pub fn counts(&self) -> bool {
        match self.verdict {
            Judgement::Failed | Judgement::AsksPeople => true,
            Judgement::Passed | Judgement::Warns => false,
        }
    }
}

impl OnboardingFacts {
    /// Returns `sha256:` and the digest of the facts.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }
}
