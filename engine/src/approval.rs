//! People deciding: seats, votes, and when they suffice. Pure; enforced by the core, where no endpoint can forget it.

use crate::{PlanDigest, Refusal};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// Someone who acts: a name, unique in the service, and the roles held at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The roles.
    pub roles: Vec<String>,
}

impl Person {
    /// A person with one role.
    pub fn new(name: impl Into<String>, roles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), roles: roles.into_iter().map(Into::into).collect() }
    }
}

/// Places at the table that must be taken by different people, each holding one of the roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Any of these roles entitles to the seat.
    pub any_of: Vec<String>,
    /// How many such people are needed.
    pub count: u32,
}

impl Seat {
    /// `count` people who hold `role`.
    pub fn of(role: impl Into<String>, count: u32) -> Self {
        Self { any_of: vec![role.into()], count }
    }

    fn suits(&self, person: &Person) -> bool {
        self.any_of.iter().any(|role| person.roles.contains(role))
    }

    fn describe(&self) -> String {
        format!("{} of {}", self.count, self.any_of.join(" or "))
    }
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
}

/// How a ballot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// Every seat is taken.
    Granted,
    /// Someone said no.
    Refused,
    /// The deadline passed first. Never counts as granted.
    Expired,
}

/// An approval under way, bound to one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// The plan that is decided on.
    pub digest: PlanDigest,
    /// Who must agree.
    pub seats: Vec<Seat>,
    /// Votes so far.
    pub votes: Vec<Vote>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it expires.
    pub deadline: Option<Timestamp>,
    /// How it ended, once it has; a paused execution moves on only when resumed.
    pub ruling: Option<Ruling>,
}

impl Ballot {
    /// A ballot on `digest` without votes.
    #[must_use]
    pub fn open(digest: PlanDigest, seats: Vec<Seat>, at: Timestamp, deadline: Option<Timestamp>) -> Self {
        Self { digest, seats, votes: Vec::new(), opened_at: at, deadline, ruling: None }
    }

    /// Counts `vote`, unless the voter asked for the execution, has voted, or holds no role that is asked for.
    ///
    /// # Errors
    /// The refusal that names the rule.
    pub fn cast(&mut self, vote: Vote, digest: &PlanDigest, requested_by: &str) -> Result<(), Refusal> {
        let person = vote.person.name.clone();
        if *digest != self.digest {
            return Err(Refusal::PlanChanged {
                offered: digest.to_string(),
                current: self.digest.to_string(),
            });
        }
        if person == requested_by {
            return Err(Refusal::OwnRequest { person });
        }
        if self.votes.iter().any(|cast| cast.person.name == person) {
            return Err(Refusal::VotedBefore { person });
        }
        if !self.seats.iter().any(|seat| seat.suits(&vote.person)) {
            return Err(Refusal::NotEntitled { person, wanted: self.wanted() });
        }
        let before = self.taken();
        let verdict = vote.verdict;
        self.votes.push(vote);
        if verdict == Verdict::Approve && self.taken() == before {
            self.votes.pop();
            return Err(Refusal::NotEntitled { person, wanted: self.wanted() });
        }
        self.ruling = match verdict {
            Verdict::Refuse => Some(Ruling::Refused),
            Verdict::Approve if self.taken() == self.places() => Some(Ruling::Granted),
            Verdict::Approve => None,
        };
        Ok(())
    }

    /// How many people must agree.
    #[must_use]
    pub fn places(&self) -> usize {
        self.seats.iter().map(|seat| seat.count as usize).sum()
    }

    /// How many places the approving votes can fill, each person one (a matching of people to places).
    #[must_use]
    pub fn taken(&self) -> usize {
        let places: Vec<&Seat> =
            self.seats.iter().flat_map(|seat| (0..seat.count).map(move |_| seat)).collect();
        let yes: Vec<&Person> = self
            .votes
            .iter()
            .filter(|vote| vote.verdict == Verdict::Approve)
            .map(|vote| &vote.person)
            .collect();
        let mut sits: Vec<Option<usize>> = vec![None; places.len()];
        (0..yes.len())
            .filter(|&voter| seat_for(voter, &yes, &places, &mut sits, &mut vec![false; places.len()]))
            .count()
    }

    /// The seats, for people: `1 of platform_ops or admin and 1 of security`.
    #[must_use]
    pub fn wanted(&self) -> String {
        self.seats.iter().map(Seat::describe).collect::<Vec<_>>().join(" and ")
    }
}

/// Kuhn's augmenting path: finds `voter` a place, moving others to another place that suits them if need be.
fn seat_for(
    voter: usize,
    people: &[&Person],
    places: &[&Seat],
    sits: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for (place, seat) in places.iter().enumerate() {
        let suits = people.get(voter).is_some_and(|person| seat.suits(person));
        let Some(seen) = tried.get_mut(place) else { continue };
        if !suits || std::mem::replace(seen, true) {
            continue;
        }
        let sitting = sits.get(place).copied().flatten();
        if sitting.is_none_or(|other| seat_for(other, people, places, sits, tried)) {
            if let Some(free) = sits.get_mut(place) {
                *free = Some(voter);
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(seats: Vec<Seat>) -> Ballot {
        Ballot::open(PlanDigest("d".into()), seats, Timestamp(0), None)
    }
    fn yes(name: &str, roles: &[&str]) -> Vote {
        Vote {
            person: Person::new(name, roles.iter().copied()),
            verdict: Verdict::Approve,
            reason: String::new(),
            at: Timestamp(1),
        }
    }
    fn cast(ballot: &mut Ballot, vote: Vote) -> Result<(), Refusal> {
        ballot.cast(vote, &PlanDigest("d".into()), "requester")
    }

    #[test]
    fn a_requester_cannot_approve_their_own_request() {
        let mut ballot = ballot(vec![Seat::of("ops", 1)]);
        assert!(matches!(cast(&mut ballot, yes("requester", &["ops"])), Err(Refusal::OwnRequest { .. })));
        assert_eq!(ballot.ruling, None);
    }

    #[test]
    fn one_person_with_two_roles_fills_one_seat() {
        let mut ballot = ballot(vec![Seat::of("ops", 1), Seat::of("security", 1)]);
        cast(&mut ballot, yes("ada", &["ops", "security"])).unwrap();
        assert_eq!(ballot.ruling, None);
        assert!(matches!(cast(&mut ballot, yes("ada", &["security"])), Err(Refusal::VotedBefore { .. })));
        cast(&mut ballot, yes("bob", &["ops"])).unwrap();
        assert_eq!(ballot.ruling, Some(Ruling::Granted), "ada moves to the security seat");
    }

    #[test]
    fn a_vote_that_fills_no_seat_is_refused() {
        let mut ballot = ballot(vec![Seat::of("ops", 1), Seat::of("security", 1)]);
        cast(&mut ballot, yes("ada", &["ops"])).unwrap();
        assert!(matches!(cast(&mut ballot, yes("bob", &["ops"])), Err(Refusal::NotEntitled { .. })));
    }

    #[test]
    fn a_vote_for_another_plan_is_refused() {
        let mut ballot = ballot(vec![Seat::of("ops", 1)]);
        let late = ballot.cast(yes("ada", &["ops"]), &PlanDigest("old".into()), "requester");
        assert!(matches!(late, Err(Refusal::PlanChanged { .. })));
    }
}
