//! People, the seats that they can take, and their votes.

use crate::{Mandate, Refusal};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// Someone who acts: a name, unique in the service, and the roles and groups held at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The roles, and `group:NAME` for each group.
    pub roles: Vec<String>,
}

impl Person {
    /// A person with these roles.
    pub fn new(name: impl Into<String>, roles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), roles: roles.into_iter().map(Into::into).collect() }
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
    pub fn of(role: impl Into<String>, count: u32) -> Self {
        Self { any_of: vec![role.into()], count }
    }

    pub(super) fn suits(&self, person: &Person) -> bool {
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
    pub mandates: Vec<Mandate>,
    /// It is to count alone, in an emergency.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub break_glass: bool,
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
        }
    }

    /// Whose roles count: those of the one voted for, if it is not the voter.
    #[must_use]
    pub fn seated(&self) -> &Person {
        self.on_behalf_of.as_ref().unwrap_or(&self.person)
    }

    /// Everybody whose one vote this is.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        [Some(&self.person), self.on_behalf_of.as_ref()].into_iter().flatten().map(|person| &*person.name)
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
        mandate.from == principal.name && mandate.to == vote.person.name && mandate.holds(vote.at)
    });
    if mandates.is_empty() || principal.name == vote.person.name {
        return Err(Refusal::NotDelegated { person: vote.person.name, from: principal.name });
    }
    let roles =
        principal.roles.into_iter().filter(|role| mandates.iter().any(|mandate| mandate.covers(role)));
    let on_behalf_of = Some(Person { roles: roles.collect(), name: principal.name });
    Ok(Vote { on_behalf_of, mandates, ..vote })
}
