//! What policy decided, on what, by which rules: enough to decide it again and get the same (I-20).

use crate::policy::{Facts, PolicyRef, Reason, Verdict};
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
    pub facts: Facts,
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

    fn id(&self) -> String {
        self.execution.to_string()
    }
}
