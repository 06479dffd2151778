//! People, the seats that they can fill, and their votes.

use crate::{Provenance, Refusal, Separation, Tie, VoteDelegation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Timestamp;

/// A person who acts: a name, unique in the service, with the roles and groups held at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The roles, and `group:NAME` for each group.
    pub roles: Vec<String>,
    /// The origin of the credential in use, if the server provides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<Provenance>>,
}

impl Person {
    /// Creates a person with these roles.
    pub fn new(name: impl Into<String>, roles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), roles: roles.into_iter().map(Into::into).collect(), provenance: None }
    }

    /// Sets the origin of the credential.
    #[must_use]
    pub fn with_provenance(self, provenance: Option<Box<Provenance>>) -> Self {
        Self { provenance, ..self }
    }
}

/// Places that different people must fill, each with one of the roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The entitled roles; `group:NAME` entitles the members of a group.
    pub any_of: Vec<String>,
    /// The number of places.
    pub count: u32,
}

impl Seat {
    /// Creates a seat with `count` places for people who hold `role`.
    pub fn new(role: impl Into<String>, count: u32) -> Self {
        Self { any_of: vec![role.into()], count }
    }

    pub(super) fn matches(&self, person: &Person) -> bool {
        self.any_of.iter().any(|role| person.roles.contains(role))
    }

    fn describe(&self) -> String {
        format!("{} of {}", self.count, self.any_of.join(" or "))
    }
}

/// Describes seats: `1 of platform_ops or admin and 1 of security`.
pub(crate) fn describe_seats(seats: &[Seat]) -> String {
    seats.iter().map(Seat::describe).collect::<Vec<_>>().join(" and ")
}

/// Approval or refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// For the plan.
    Approve,
    /// Against the plan. One refusal decides.
    Refuse,
}

/// The decision of one person on one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The voter.
    pub person: Person,
    /// Approval or refusal.
    pub verdict: Verdict,
    /// Why, in the voter's words.
    pub reason: String,
    /// The time of the vote.
    pub at: Timestamp,
    /// The person voted for, if not the voter, with their roles. In a ballot, only the delegated roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Person>,
    /// The delegations to the voter and to the person voted for. In a ballot, the ones that were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandates: Vec<VoteDelegation>,
    /// True for a break-glass vote, which needs no other vote.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub break_glass: bool,
    /// How strictly separation is required. The engine that casts the vote overwrites it.
    #[serde(default, skip_serializing_if = "Separation::is_enforced")]
    pub separation: Separation,
    /// In a ballot: the tie with another person, if the vote counts in spite of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<Tie>,
    /// The origin of the credentials of requesters and of people who changed the plan, where the execution does not
    /// record it. Empty in a ballot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parties: BTreeMap<String, Provenance>,
}

impl Vote {
    /// Creates a vote in the voter's own right.
    pub fn new(person: Person, verdict: Verdict, reason: impl Into<String>, at: Timestamp) -> Self {
        Self {
            person,
            verdict,
            reason: reason.into(),
            at,
            on_behalf_of: None,
            mandates: Vec::new(),
            break_glass: false,
            separation: Separation::default(),
            tie: None,
            parties: BTreeMap::new(),
        }
    }

    /// Returns the person whose roles count: the person voted for, or else the voter.
    #[must_use]
    pub fn principal(&self) -> &Person {
        self.on_behalf_of.as_ref().unwrap_or(&self.person)
    }

    /// Returns the voter and the person voted for.
    pub(crate) fn people(&self) -> impl Iterator<Item = &Person> {
        [Some(&self.person), self.on_behalf_of.as_ref()].into_iter().flatten()
    }

    /// Returns their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.people().map(|person| &*person.name)
    }
}

/// Returns `vote` with only the delegated roles of the person voted for, and the delegations that cover them.
///
/// # Errors
/// Returns [`Refusal::NotDelegated`] if no active delegation covers the vote.
pub(crate) fn delegated(vote: Vote) -> Result<Vote, Refusal> {
    let Some(principal) = vote.on_behalf_of else { return Ok(Vote { mandates: Vec::new(), ..vote }) };
    let mut mandates = vote.mandates;
    mandates.retain(|mandate| {
        mandate.from == principal.name && mandate.to == vote.person.name && mandate.is_active(vote.at)
    });
    if mandates.is_empty() || principal.name == vote.person.name {
        return Err(Refusal::NotDelegated { person: vote.person.name, from: principal.name });
    }
    let covered = |role: &String| mandates.iter().any(|mandate| mandate.covers(role));
    let roles = principal.roles.iter().filter(|role| covered(role)).cloned().collect();
    let on_behalf_of = Some(Person { roles, ..principal });
    Ok(Vote { on_behalf_of, mandates, ..vote })
}
