//! What policy decided, on what, by which rules: enough to decide it again and get the same (I-20).

use super::{OnboardingRequest, Origin, PolicyRef, Preflight, sha256};
use crate::placement::Candidate;
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// A decision of policy. Never rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The execution that asked.
    pub execution: ExecutionId,
    /// The policy that was in force.
    pub policy: PolicyRef,
    /// Everything that was looked at.
    pub facts: OnboardingFacts,
    /// SHA-256 of the facts.
    pub facts_digest: String,
    /// What was decided.
    pub verdict: Verdict,
    /// By which rules.
    pub reasons: Vec<Reason>,
    /// When.
    pub at: Timestamp,
}

impl Entity for Decision {
    const COLLECTION: &'static str = "decisions";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.execution.to_string()
    }
}

/// Everything that a decision looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingFacts {
    /// What is asked for.
    pub request: OnboardingRequest,
    /// Whether another tenant has the name.
    pub name_in_use: bool,
    /// The clusters, with their GPUs of the model.
    pub candidates: Vec<Candidate>,
    /// Day and former use of the name. `None` in decisions of earlier versions, and in examples of a policy: the rules that look at
    /// them do not count there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// No, whoever approves.
    Rejected,
    /// Yes, without people.
    SelfService,
    /// If people approve.
    NeedsApproval,
}

/// How one rule judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Nothing against it.
    Passed,
    /// It cannot be.
    Failed,
    /// People must look at it.
    AsksPeople,
    /// Allowed, and perhaps not what was meant.
    Warns,
}

/// One rule's part in a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The rule.
    pub rule: String,
    /// How it judged.
    pub verdict: Judgement,
    /// On what.
    pub detail: String,
    /// The line of the request that it is about, where known.
    pub line: Option<u64>,
    /// Where the policy says so; `None` for what holds under every policy, such as that names are unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Origin>,
}

impl Reason {
    /// Returns what was found, and where the policy says so.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.by {
            Some(by) => format!("{} ({}, {by})", self.detail, self.rule),
            None => format!("{} ({})", self.detail, self.rule),
        }
    }

    /// Whether it had a part in the verdict.
    #[must_use]
    pub fn counts(&self) -> bool {
        match self.verdict {
            Judgement::Failed | Judgement::AsksPeople => true,
            Judgement::Passed | Judgement::Warns => false,
        }
    }
}

impl OnboardingFacts {
    /// `sha256:` and the digest of the facts.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }
}
