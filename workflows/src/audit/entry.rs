//! One entry of an audit: a sentence, and the same content in fields.

use crate::{
    audit::denial::{Denial, Denied},
    policy::PolicyRef,
    signing::{Digest, Moment},
};
use serde::{Deserialize, Serialize};

/// One audit entry: the action, actor, object, time, plan, policy and outcome. It has no secrets, because no argument or result of an action is
/// copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The tenant's id. Empty for the platform's own audit.
    pub tenant: String,
    /// The number in the tenant's chain, from 1.
    pub number: u64,
    /// The digest of the previous entry. `None` for the first.
    pub previous: Option<Digest>,
    /// The time, by the engine's clock.
    pub at: Moment,
    /// The actor: a user, a key, or `engine`.
    pub actor: String,
    /// The kind of the actor. `None` if the actor is unknown, and in entries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ActorKind>,
    /// The roles of the actor for this decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The name of the event in the journal.
    pub event: String,
    /// The whole entry as a sentence.
    pub says: String,
    /// The execution. `None` for a change of documents without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// The workflow of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The object, such as `tenant/acme`. For a change without an execution, or a denied request, the path of the request.
    pub subject: String,
    /// The cluster, if the plan or the documents name exactly one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The workspace, if the plan or the documents name exactly one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The previous state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The next state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The outcome: `approved`, `refused`, `done`, an error code, or the outcome of an execution that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The time of effect: for a completed action, a completed execution, or a change of documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actuated_at: Option<Moment>,
    /// For a vote: the id of its approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// For the end of an execution: the approvals granted to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Consent>,
    /// The actor's reason, at most the first 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The plan of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<EffectivePlan>,
    /// The policy that the plan names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRef>,
    /// For a change without an execution: the written documents, at most the first 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<String>,
    /// For a change without an execution: the removed documents, at most the first 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// For a denied request: the request and its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// The journal entry that this one seals.
    pub journal: JournalRef,
}

/// The kind of an actor.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActorKind {
    /// A user who is a person.
    Person,
    /// A program with a user or a key of its own.
    Service,
    /// The Tenure server itself.
    Engine,
}

impl ActorKind {
    /// Events that only the engine writes.
    const OF_ENGINE: &[&str] =
        &["settled", "passed", "deadline_passed", "overdue", "fenced", "child_started"];

    /// Returns the kind of an entry's actor. `is_service` is the kind in the list of users; `None` means that the name is not in the list.
    #[must_use]
    pub fn of(actor: &str, event: &str, is_service: Option<bool>) -> Option<Self> {
        if matches!(actor, Denial::UNKNOWN | Denial::SEVERAL) && event == Denial::EVENT {
            return None;
        }
        if matches!(actor, "engine" | "tenure") || Self::OF_ENGINE.contains(&event) {
            return Some(Self::Engine);
        }
        Some(match is_service {
            Some(true) => Self::Service,
            Some(false) => Self::Person,
            None if actor.starts_with("oidc:") => Self::Person,
            // No user can have such a name, so it is a key or a program.
            None if actor.contains([':', '/', ' ']) => Self::Service,
            None => Self::Person,
        })
    }
}

/// A granted approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consent {
    /// Its id.
    pub approval: String,
    /// The approvers. Empty if a policy rule granted it.
    pub by: Vec<Approver>,
    /// The time of the grant.
    pub at: Moment,
}

/// One approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approver {
    /// The user's name.
    pub name: String,
    /// The roles of the approver.
    pub roles: Vec<String>,
}

/// A plan, with the source that identified it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectivePlan {
    /// Its digest.
    pub digest: String,
    /// The source.
    pub by: PlanSource,
}

/// The source that identifies the plan of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanSource {
    /// The vote names the plan.
    Vote,
    /// An approval that was open or granted at that time names the plan.
    Approval,
    /// The plan at the time of sealing. No approval was requested before.
    Sealing,
}

/// A reference to a journal entry and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalRef {
    /// The commit.
    pub sequence: u64,
    /// The index within the commit.
    pub place: u32,
    /// The digest of the whole journal entry.
    pub digest: Digest,
}

impl Entry {
    /// Returns the kind of the actor. Entries of earlier versions do not state it.
    #[must_use]
    pub fn actor_kind(&self) -> Option<ActorKind> {
        self.kind.or_else(|| ActorKind::of(&self.actor, &self.event, None))
    }

    /// Returns the digest that the next entry and a checkpoint link to.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_content("audit entry", self)
    }
}
