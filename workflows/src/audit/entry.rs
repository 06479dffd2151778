//! One line of an audit: a sentence, and the same in fields.

use crate::{
    audit::denial::{Denial, Denied},
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
    /// What the actor is; none where nobody is known, and in entries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ActorKind>,
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
    /// The one cluster that it is about, as far as the plan or the documents name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The one workspace that it is about, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The state before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The state after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How it came out: `approved`, `refused`, `done`, the code of an error, or the outcome of an execution that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// When it took effect: of an action that was done, of an execution that completed, of documents that were changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actuated_at: Option<Moment>,
    /// Of a vote: the approval that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Of the end of an execution: the approvals that were granted for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Consent>,
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

/// What somebody is who did something.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActorKind {
    /// A person.
    Person,
    /// A program with a user or a key of its own.
    Service,
    /// Tenure itself.
    Engine,
}

impl ActorKind {
    /// Events that nobody but the engine journals.
    const OF_ENGINE: &[&str] =
        &["settled", "passed", "deadline_passed", "overdue", "fenced", "child_started"];

    /// What the actor of an entry is. `is_service` is what the list of users says of the name; `None` where it has no such user.
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
            // No user has such a name: it is a key, or the machine.
            None if actor.contains([':', '/', ' ']) => Self::Service,
            None => Self::Person,
        })
    }
}

/// An approval that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consent {
    /// Its id.
    pub approval: String,
    /// Who agreed; nobody where policy stood for people.
    pub by: Vec<Approver>,
    /// When it was granted.
    pub at: Moment,
}

/// Somebody who agreed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approver {
    /// The name.
    pub name: String,
    /// The roles in which they agreed.
    pub roles: Vec<String>,
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
    /// What the actor is, also of entries of earlier versions, which do not say so.
    #[must_use]
    pub fn actor_kind(&self) -> Option<ActorKind> {
        self.kind.or_else(|| ActorKind::of(&self.actor, &self.event, None))
    }

    /// What the next entry, and a checkpoint, call it by.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_content("audit entry", self)
    }
}
