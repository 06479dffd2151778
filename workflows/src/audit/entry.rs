//! One line of an audit: a sentence, and the same in fields.

use crate::{
    audit::denial::Denied,
    policy::PolicyRef,
    signing::{Digest, Moment},
};
use serde::{Deserialize, Serialize};

/// What was done, by whom, to what, when, under which plan and policy, and with which outcome. Holds no secret: nothing is
/// taken over from an action's arguments or answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Whose; empty for the platform's own.
    pub tenant: String,
    /// Its place in the tenant's chain, from 1.
    pub number: u64,
    /// The digest of the entry before, `None` for the first.
    pub previous: Option<Digest>,
    /// When, by the engine's clock.
    pub at: Moment,
    /// Who: a person, a key, or `engine`.
    pub actor: String,
    /// The roles in which the actor decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// What happened, as the journal calls it.
    pub event: String,
    /// All of it as a sentence.
    pub says: String,
    /// The execution, unless documents were changed without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// What it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// What it is about, such as `tenant/acme`; of a change without an execution, or a refusal, the address that was called.
    pub subject: String,
    /// The state before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The state after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How it came out: `approved`, `refused`, `done`, the code of an error, or the outcome of an execution that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why, in the actor's words; at most the first 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The plan it was done under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<EffectivePlan>,
    /// The policy that the plan names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRef>,
    /// Documents written, of a change without an execution: at most the first 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<String>,
    /// Documents removed, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// What was refused and from where, of a request that was not let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// The journal entry that this one seals.
    pub journal: JournalRef,
}

/// A plan, and how the auditor came to know that it was the one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectivePlan {
    /// Its digest.
    pub digest: String,
    /// What says so.
    pub by: PlanSource,
}

/// What says under which plan something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanSource {
    /// The vote itself names it.
    Vote,
    /// The approval that was open or granted by then names it.
    Approval,
    /// It is the plan as it stood when the entry was sealed; nobody had been asked by then.
    Sealing,
}

/// Names a journal entry and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalRef {
    /// The commit.
    pub sequence: u64,
    /// Its place within the commit.
    pub place: u32,
    /// The digest of all that the journal says.
    pub digest: Digest,
}

impl Entry {
    /// What the next entry, and a checkpoint, call it by.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_content("audit entry", self)
    }
}
