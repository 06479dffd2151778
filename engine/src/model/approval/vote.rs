//! People, the seats that they can take, and their votes.

use crate::{Provenance, Refusal, Separation, Tie, VoteDelegation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Timestamp;

/// Someone who acts: a name, unique in the service, and the roles and groups held at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The roles, and `group:NAME` for each group.
    pub roles: Vec<String>,
    /// Where the credential comes from that they act by, as far as the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<Provenance>>,
}

impl Person {
    /// A person with these roles.
    pub fn new(name: impl Into<String>, roles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), roles: roles.into_iter().map(Into::into).collect(), provenance: None }
    }

    /// The same, by a credential that comes from there.
    #[must_use]
    pub fn with_provenance(self, provenance: Option<Box<Provenance>>) -> Self {
        Self { provenance, ..self }
    }
}

/// Places at the table that must be taken by different people, each holding one of the roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Any of these roles entitles to the seat; `group:NAME` is held by the members of a group.
    pub any_of: Vec<String>,
    /// How many such people are needed.
    pub count: u32,
}

impl Seat {
    /// `count` people who hold `role`.
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

/// Seats for people: `1 of platform_ops or admin and 1 of security`.
pub(crate) fn describe_seats(seats: &[Seat]) -> String {
    seats.iter().map(Seat::describe).collect::<Vec<_>>().join(" and ")
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// For the plan.
    Approve,
    /// Against it: one is enough.
    Refuse,
}

/// One person's decision on one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Who.
    pub person: Person,
    /// Yes or no.
    pub verdict: Verdict,
    /// Why, in the voter's words.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// For whom, if not in the voter's own right, with the roles held by them; in a ballot, those of them that were delegated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Person>,
    /// The delegations to the voter, and to the one voted for, as they stood; in a ballot, the one that was used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandates: Vec<VoteDelegation>,
    /// It is to count alone, in an emergency.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub break_glass: bool,
    /// Whether it must be separate to count. The engine that takes it says so, whatever stood here.
    #[serde(default, skip_serializing_if = "Separation::is_enforced")]
    pub separation: Separation,
    /// In a ballot: why it is not that of another person, though it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<Tie>,
    /// Where the credentials of those come from who asked or changed the plan, for those of whom the execution does not say; in a
    /// ballot, nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parties: BTreeMap<String, Provenance>,
}

impl Vote {
    /// A vote in one's own right.
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

    /// Whose roles count: those of the one voted for, if it is not the voter.
    #[must_use]
    pub fn principal(&self) -> &Person {
        self.on_behalf_of.as_ref().unwrap_or(&self.person)
    }

    /// Everybody whose one vote this is.
    pub(crate) fn people(&self) -> impl Iterator<Item = &Person> {
        [Some(&self.person), self.on_behalf_of.as_ref()].into_iter().flatten()
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.people().map(|person| &*person.name)
    }
}

/// `vote` with what it stands on alone: of the one voted for the roles that were delegated, and the delegations that say so.
///
/// # Errors
/// [`Refusal::NotDelegated`].
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
