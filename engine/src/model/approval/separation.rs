//! Separation of duties: checks that two people on a ballot are independent, by who could use their credentials and
//! who granted their roles.
//!
//! The ballot calls it for every approving vote. The server gathers the facts; only [`find_tie`] judges them.
//! Invariant: pure, and independent of the order in which two people vote.

use crate::{Person, Vote};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::Timestamp;

/// How a credential came to its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Another person issued the credential and has seen it.
    #[default]
    Issued,
    /// The owner enrolled it with a one-time code.
    Enrolled,
    /// An identity provider identified the owner.
    Oidc,
}

impl Claim {
    /// Returns its name, as records and lists show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Enrolled => "enrolled",
            Self::Oidc => "oidc",
        }
    }
}

/// The origin of a credential, and of its user's roles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The person who created the user; `None` for users who sign in through an identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// How the credential was claimed.
    #[serde(default)]
    pub claim: Claim,
    /// The person who issued the credential, or the one-time code for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_by: Option<String>,
    /// Everyone except the owner who may have the credential: the people who created the user or issued or reset the
    /// credential, and the people who controlled their credentials at that time. Empty once the owner has claimed it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub controlled_by: BTreeSet<String>,
    /// The people who granted the user a role or a group since the credential was claimed, and the people who
    /// controlled their credentials at that time.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub granted_by: BTreeSet<String>,
}

impl Provenance {
    /// Represents a person whose name is not recorded. No user has this name.
    pub const UNKNOWN: &'static str = "?";

    /// Derives the provenance of `owner`'s credential from `records`.
    ///
    /// Acts of others before the owner's last claim are ignored.
    #[must_use]
    pub fn of(owner: &str, records: &CredentialRecords) -> Self {
        let claimed = match records.claim {
            Claim::Issued => false,
            Claim::Enrolled | Claim::Oidc => true,
        };
        let since = |act: &&CredentialAct| records.claimed_at.is_none_or(|claimed| act.at >= claimed);
        let created = records.created.as_ref().filter(|_| records.claimed_at.is_none());
        let seen = created.into_iter().chain(&records.issued).filter(|_| !claimed);
        let without_owner =
            |people: BTreeSet<String>| people.into_iter().filter(|name| name != owner).collect();
        Self {
            created_by: records.created.as_ref().map(|act| act.by.clone()),
            claim: records.claim,
            issued_by: records.issued.as_ref().map(|act| act.by.clone()),
            controlled_by: without_owner(seen.flat_map(CredentialAct::people).collect()),
            granted_by: without_owner(
                records.grants.iter().filter(since).flat_map(CredentialAct::people).collect(),
            ),
        }
    }

    /// Returns an act of `owner` with this credential, at `at`, on the credential of another user.
    #[must_use]
    pub fn act(&self, owner: &str, at: Timestamp) -> CredentialAct {
        CredentialAct { by: owner.into(), at, controlled_by: Some(self.controlled_by.clone()) }
    }
}

/// An act on a user or a credential: its creation, its issue, or a grant of a role or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialAct {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The people who could use that person's credential. `None` in records of earlier versions, where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controlled_by: Option<BTreeSet<String>>,
}

impl CredentialAct {
    fn people(&self) -> BTreeSet<String> {
        let unknown = || BTreeSet::from([Provenance::UNKNOWN.to_owned()]);
        let mut people = self.controlled_by.clone().unwrap_or_else(unknown);
        people.insert(self.by.clone());
        people
    }
}

/// The recorded facts about a credential and its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialRecords {
    /// How the owner got it.
    pub claim: Claim,
    /// The creation of the user.
    pub created: Option<CredentialAct>,
    /// The issue of the credential, or of the one-time code for it.
    pub issued: Option<CredentialAct>,
    /// When the user last claimed their own credential.
    pub claimed_at: Option<Timestamp>,
    /// The grants of roles and groups to the user.
    pub grants: Vec<CredentialAct>,
}

/// How strictly an approval requires separate people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Separation {
    /// A vote by a person who is not separate is refused.
    #[default]
    Enforced,
    /// Such a vote counts, and records the tie. For trials.
    NotEnforced,
}

impl Separation {
    /// Returns true for [`Separation::Enforced`].
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        matches!(self, Self::Enforced)
    }

    /// Returns its name, as records and lists show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::NotEnforced => "not_enforced",
        }
    }
}

/// The kinds of ties between two people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TieKind {
    /// One person may have the credentials of both.
    Credential,
    /// One of them granted the other a role or a group.
    Grant,
}

/// The reason why two votes are not independent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// The other person: the requester, a person who changed the plan, or another voter.
    pub with: String,
    /// The person who connects both.
    pub by: String,
    /// The kind of the tie.
    pub kind: TieKind,
}

impl Tie {
    fn new(with: &str, by: &str, kind: TieKind) -> Self {
        Self { with: with.into(), by: by.into(), kind }
    }

    /// Describes the tie of a vote by `person`.
    #[must_use]
    pub fn describe(&self, person: &str) -> String {
        let Self { with, by, kind } = self;
        let by = if by == Provenance::UNKNOWN { "an unknown administrator" } else { by };
        match kind {
            TieKind::Credential if by == with => {
                format!("{by} created, issued or reset the credential of {person}")
            }
            TieKind::Credential if by == person => {
                format!("{by} created, issued or reset the credential of {with}")
            }
            TieKind::Credential => {
                format!("{by} created, issued or reset the credentials of both {person} and {with}")
            }
            TieKind::Grant if by == person => format!("{by} gave {with} a role or a group"),
            TieKind::Grant if by == with => format!("{by} gave {person} a role or a group"),
            TieKind::Grant => {
                format!(
                    "{by}, who can use the credential of {with} or {person}, gave the other a role or a group"
                )
            }
        }
    }
}

/// The people of one vote, or one requester, taken together.
#[derive(Default)]
struct Party<'a> {
    /// Everyone who can act as them.
    controllers: BTreeSet<&'a str>,
    /// Everyone who granted them a role or a group.
    granters: BTreeSet<&'a str>,
}

impl<'a> Party<'a> {
    fn of(people: impl Iterator<Item = &'a Person>) -> Self {
        let mut party = Self::default();
        for person in people {
            party.controllers.insert(&person.name);
            if let Some(provenance) = &person.provenance {
                party.controllers.extend(provenance.controlled_by.iter().map(String::as_str));
                party.granters.extend(provenance.granted_by.iter().map(String::as_str));
            }
        }
        party
    }

    /// Returns a person who can act as both.
    fn shares(&self, other: &Self) -> Option<&'a str> {
        self.controllers.intersection(&other.controllers).next().copied()
    }

    /// Returns a person who can act as `other` and granted this party a role or a group.
    fn owes(&self, other: &Self) -> Option<&'a str> {
        self.granters.intersection(&other.controllers).next().copied()
    }

    /// Returns the tie of this party with one of `asked`.
    fn tie_with(&self, asked: &[Person]) -> Option<Tie> {
        asked.iter().find_map(|asker| {
            let party = Party::of(std::iter::once(asker));
            let shared = self.shares(&party).map(|by| Tie::new(&asker.name, by, TieKind::Credential));
            shared.or_else(|| self.owes(&party).map(|by| Tie::new(&asker.name, by, TieKind::Grant)))
        })
    }
}

/// Returns why `person` is not separate from `asked`, outside a ballot. Confirmations of commands, reviews of
/// decisions and releases of holds follow the same rule as votes. Returns `None` if `person` is separate.
#[must_use]
pub fn find_tie_between(person: &Person, asked: &[Person]) -> Option<Tie> {
    Party::of(std::iter::once(person)).tie_with(asked)
}

/// Returns why `vote` is not separate from `asked` (the requester and the people who changed the plan) and from the
/// earlier `votes`, or `None` if it is.
///
/// # Guarantees
/// Two votes count together only if no person can use the credentials of both, and neither voter, nor anyone who can
/// use their credential, granted the other a role or a group. The same holds between a voter and a requester, except
/// that the voter may have granted the requester's roles.
#[must_use]
pub fn find_tie(vote: &Vote, asked: &[Person], votes: &[Vote]) -> Option<Tie> {
    let voter = Party::of(vote.people());
    if let Some(tie) = voter.tie_with(asked) {
        return Some(tie);
    }
    for cast in votes {
        let party = Party::of(cast.people());
        if let Some(by) = voter.shares(&party) {
            return Some(Tie::new(&cast.person.name, by, TieKind::Credential));
        }
        if let Some(by) = voter.owes(&party).or_else(|| party.owes(&voter)) {
            return Some(Tie::new(&cast.person.name, by, TieKind::Grant));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn person(name: &str, controlled_by: &[&str], granted_by: &[&str]) -> Person {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let provenance = Provenance {
            controlled_by: set(controlled_by),
            granted_by: set(granted_by),
            ..Provenance::default()
        };
        Person::new(name, ["ops"]).with_provenance(Some(Box::new(provenance)))
    }

    #[test]
    fn confirmations_and_releases_follow_the_rule_of_votes() {
        let people = [
            person("ada", &[], &[]),
            person("bob", &["ada"], &[]),
            person("cy", &[], &["ada"]),
            person("dee", &["bob"], &["cy"]),
            person("eve", &[], &[]),
        ];
        for one in &people {
            for other in &people {
                let asked = std::slice::from_ref(other);
                let vote = Vote::new(one.clone(), Verdict::Approve, "", Timestamp(0));
                assert_eq!(find_tie_between(one, asked), find_tie(&vote, asked, &[]), "{one:?} {other:?}");
            }
        }
        assert!(find_tie_between(&people[1], &people[..1]).is_some());
        assert!(find_tie_between(&people[4], &people[..1]).is_none());
    }
}
