//! Whether two people on a ballot are two: who has had the credential of each in hand, and who made them entitled.
//!
//! Called by the ballot for every vote that agrees. The server gathers the facts; nothing but [`find_tie`] weighs them.
//! Invariant: pure, and the order in which two people vote makes no difference to whether both count.

use crate::{Person, Vote};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::Timestamp;

/// How somebody came to the credential that they act by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Somebody else drew it and has seen it.
    #[default]
    Issued,
    /// Its owner claimed it with a one-time code.
    Enrolled,
    /// An identity provider said who its owner is.
    Oidc,
}

impl Claim {
    /// Its name, as records and lists show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Enrolled => "enrolled",
            Self::Oidc => "oidc",
        }
    }
}

/// Where a credential comes from, and who made its user entitled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Who created the user; nobody did who signs in through an identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// How the credential was claimed.
    #[serde(default)]
    pub claim: Claim,
    /// Who issued the credential, or made the code by which it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_by: Option<String>,
    /// Everybody beside the owner who can have the credential: who created the user, issued or reset the credential, and whoever
    /// controlled theirs when they did. Nobody, once the owner has claimed it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub controlled_by: BTreeSet<String>,
    /// Who gave the user a role or a group since the credential was claimed, and whoever controlled theirs when they did.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub granted_by: BTreeSet<String>,
}

impl Provenance {
    /// Stands in the sets for whoever did what no record names. No user has this name.
    pub const UNKNOWN: &'static str = "?";

    /// Where a credential of `owner` comes from, of which these are the records.
    ///
    /// What others did before the owner's last claim of their own counts no more.
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

    /// What `owner` does by this credential, at `at`, for somebody else's.
    #[must_use]
    pub fn act(&self, owner: &str, at: Timestamp) -> CredentialAct {
        CredentialAct { by: owner.into(), at, controlled_by: Some(self.controlled_by.clone()) }
    }
}

/// Something done to a user or a credential: it was created, issued, or given a role or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialAct {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Who else could have done it in that name; `None` in what earlier versions recorded: nobody knows.
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

/// What is on record of a credential and of its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialRecords {
    /// How it came to its owner.
    pub claim: Claim,
    /// Who created the user.
    pub created: Option<CredentialAct>,
    /// Who issued the credential, or made the code by which it was claimed.
    pub issued: Option<CredentialAct>,
    /// When the user last claimed a credential of their own.
    pub claimed_at: Option<Timestamp>,
    /// Who gave the user a role or a group.
    pub grants: Vec<CredentialAct>,
}

/// Whether an approval takes people who are separate from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Separation {
    /// A vote by a person who is not separate is refused.
    #[default]
    Enforced,
    /// It counts, and says so: for trials.
    NotEnforced,
}

impl Separation {
    /// Whether it is [`Separation::Enforced`].
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        matches!(self, Self::Enforced)
    }

    /// Its name, as records and lists show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::NotEnforced => "not_enforced",
        }
    }
}

/// What joins two people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TieKind {
    /// One and the same person can have the credentials of both.
    Credential,
    /// One of them gave the other a role or a group.
    Grant,
}

/// Why a vote is not that of another person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// From whom it is not separate: who asked, who changed the plan, or another voter.
    pub with: String,
    /// Who stands behind both.
    pub by: String,
    /// By what.
    pub kind: TieKind,
}

impl Tie {
    fn new(with: &str, by: &str, kind: TieKind) -> Self {
        Self { with: with.into(), by: by.into(), kind }
    }

    /// What it is, in words, of the vote of `person`.
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
                format!("{by}, who stands behind {with} or {person}, gave the other a role or a group")
            }
        }
    }
}

/// The people of one vote, or somebody who asked, as one.
#[derive(Default)]
struct Party<'a> {
    /// Who can act as them.
    controllers: BTreeSet<&'a str>,
    /// Who gave them what they are entitled by.
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

    /// Who can act as both.
    fn shares(&self, other: &Self) -> Option<&'a str> {
        self.controllers.intersection(&other.controllers).next().copied()
    }

    /// Who can act as `other` and gave this party a role or a group.
    fn owes(&self, other: &Self) -> Option<&'a str> {
        self.granters.intersection(&other.controllers).next().copied()
    }

    /// Why this party is not another than one of those who asked.
    fn tie_with(&self, asked: &[Person]) -> Option<Tie> {
        asked.iter().find_map(|asker| {
            let party = Party::of(std::iter::once(asker));
            let shared = self.shares(&party).map(|by| Tie::new(&asker.name, by, TieKind::Credential));
            shared.or_else(|| self.owes(&party).map(|by| Tie::new(&asker.name, by, TieKind::Grant)))
        })
    }
}

/// Why `person` is not another person than those who asked for something, where no ballot is held: who agrees to a command, reviews
/// a decision or releases a hold counts by the same rule as who votes. `None` where it is another.
#[must_use]
pub fn find_tie_between(person: &Person, asked: &[Person]) -> Option<Tie> {
    Party::of(std::iter::once(person)).tie_with(asked)
}

/// Why `vote` is not that of another person than those who asked for the plan or shaped it, and than those who voted before; `None`
/// where it is.
///
/// # Guarantees
/// Two votes count beside each other only if nobody can have the credentials of both and neither voter, nor whoever can have their
/// credential, entitled the other. The same holds between a voter and who asked, but that a voter may have entitled who asked.
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
    fn who_seconds_or_releases_counts_as_who_votes_does() {
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
