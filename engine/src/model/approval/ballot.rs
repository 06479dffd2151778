//! People deciding: seats, votes, and when they suffice. Pure; enforced by the core, where no endpoint can forget it.

use crate::{
    Happening, Mandate, PlanDigest, Procedure, Refusal, What, model::approval::delegation::mandated,
};
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
    /// When it expires, or is extended.
    pub deadline: Option<Timestamp>,
    /// How it ended, once it has; a paused execution moves on only when resumed.
    pub ruling: Option<Ruling>,
    /// What else policy says about it.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// What has happened to it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Happening>,
    /// Up to when its timetable has been dealt with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<Timestamp>,
}

impl Ballot {
    /// A ballot on `digest` without votes.
    #[must_use]
    pub fn open(digest: PlanDigest, seats: Vec<Seat>, at: Timestamp, deadline: Option<Timestamp>) -> Self {
        Self {
            digest,
            seats,
            votes: Vec::new(),
            opened_at: at,
            deadline,
            ruling: None,
            procedure: Procedure::default(),
            history: Vec::new(),
            rung: None,
        }
    }

    /// The same, held by `procedure`.
    #[must_use]
    pub fn held_by(self, procedure: Procedure) -> Self {
        Self { procedure, ..self }
    }

    /// Counts `vote`, unless the voter asked for the execution or stands for who did, has voted, or holds no role that is
    /// asked for.
    ///
    /// # Errors
    /// The refusal that names the rule.
    pub fn cast(&mut self, vote: Vote, digest: &PlanDigest, requested_by: &str) -> Result<(), Refusal> {
        if *digest != self.digest {
            return Err(Refusal::PlanChanged {
                offered: digest.to_string(),
                current: self.digest.to_string(),
            });
        }
        self.check_interests(&vote, requested_by)?;
        let vote = mandated(vote)?;
        let counted = |name: &str| self.votes.iter().any(|cast| cast.names().any(|other| other == name));
        if let Some(person) = vote.names().find(|name| counted(name)) {
            return Err(Refusal::VotedBefore { person: person.into() });
        }
        match vote.verdict {
            Verdict::Approve if vote.break_glass => self.break_glass(vote),
            Verdict::Approve => self.agree(vote),
            Verdict::Refuse => self.refuse(vote),
        }
    }

    /// Four eyes: neither who asked, nor who stands for them or has since this was asked, nor for who does.
    pub(crate) fn check_interests(&self, vote: &Vote, requested_by: &str) -> Result<(), Refusal> {
        for name in vote.names() {
            if name == requested_by {
                return Err(Refusal::OwnRequest { person: name.into() });
            }
            let stands = |mandate: &&Mandate| mandate.from == requested_by && mandate.to == name;
            let during = |mandate: &Mandate| mandate.touches(self.opened_at, vote.at);
            if vote.mandates.iter().filter(stands).any(during) {
                return Err(Refusal::ForRequester { person: name.into(), requester: requested_by.into() });
            }
        }
        Ok(())
    }

    fn not_entitled(&self, vote: &Vote) -> Refusal {
        Refusal::NotEntitled { person: vote.seated().name.clone(), wanted: self.wanted() }
    }

    fn suits(&self, vote: &Vote) -> bool {
        self.seats.iter().any(|seat| seat.suits(vote.seated()))
    }

    fn agree(&mut self, vote: Vote) -> Result<(), Refusal> {
        let (before, fails) = (self.taken(), self.not_entitled(&vote));
        self.votes.push(vote);
        if self.taken() == before {
            self.votes.pop();
            return Err(fails);
        }
        if self.is_filled() {
            self.ruling = Some(Ruling::Granted);
        }
        Ok(())
    }

    fn refuse(&mut self, vote: Vote) -> Result<(), Refusal> {
        if !self.suits(&vote) {
            return Err(self.not_entitled(&vote));
        }
        if vote.reason.trim().is_empty() {
            return Err(Refusal::ReasonMissing { least: 1 });
        }
        self.votes.push(vote);
        self.ruling = Some(Ruling::Refused);
        Ok(())
    }

    /// One person alone, in their own right, by the terms of policy.
    fn break_glass(&mut self, vote: Vote) -> Result<(), Refusal> {
        let person = vote.person.name.clone();
        let Some(glass) = &self.procedure.break_glass else {
            return Err(Refusal::NoGlass { person, wanted: "nobody".into() });
        };
        let entitled = glass.any_of.iter().any(|role| vote.person.roles.contains(role));
        if !entitled || vote.on_behalf_of.is_some() {
            return Err(Refusal::NoGlass { person, wanted: glass.any_of.join(" or ") });
        }
        if vote.reason.trim().chars().count() < glass.reason_at_least.max(1) as usize {
            return Err(Refusal::ReasonMissing { least: glass.reason_at_least.max(1) });
        }
        self.votes.push(vote);
        self.ruling = Some(Ruling::Granted);
        Ok(())
    }

    /// Takes back the vote that `by` cast, or that was cast for them, while nothing is decided. They may vote again.
    ///
    /// # Errors
    /// [`Refusal::NoVote`].
    pub fn withdraw(&mut self, by: &str, reason: &str, at: Timestamp) -> Result<(), Refusal> {
        let none = || Refusal::NoVote { person: by.into() };
        if self.ruling.is_some() {
            return Err(none());
        }
        let place =
            self.votes.iter().position(|vote| vote.names().any(|name| name == by)).ok_or_else(none)?;
        let vote = Box::new(self.votes.remove(place));
        self.happen(at, What::Withdrawn { vote, by: by.into(), reason: reason.into() });
        Ok(())
    }

    /// The vote that decided alone, if one did.
    #[must_use]
    pub fn broken_by(&self) -> Option<&Vote> {
        self.votes.iter().find(|vote| vote.break_glass)
    }

    /// How many people must agree.
    #[must_use]
    pub fn places(&self) -> usize {
        self.seats.iter().map(|seat| seat.count as usize).sum()
    }

    /// Every place is taken, and there is one.
    pub(crate) fn is_filled(&self) -> bool {
        let places = self.places();
        places > 0 && self.taken() == places
    }

    /// How many places the approving votes can fill, each person one (a matching of people to places).
    #[must_use]
    pub fn taken(&self) -> usize {
        let places: Vec<&Seat> =
            self.seats.iter().flat_map(|seat| (0..seat.count).map(move |_| seat)).collect();
        let yes: Vec<&Person> =
            self.votes.iter().filter(|vote| vote.verdict == Verdict::Approve).map(Vote::seated).collect();
        let mut sits: Vec<Option<usize>> = vec![None; places.len()];
        (0..yes.len())
            .filter(|&voter| seat_for(voter, &yes, &places, &mut sits, &mut vec![false; places.len()]))
            .count()
    }

    /// The seats, for people: `1 of platform_ops or admin and 1 of security`.
    #[must_use]
    pub fn wanted(&self) -> String {
        wanted(&self.seats)
    }
}

/// Seats for people: `1 of platform_ops or admin and 1 of security`.
pub(crate) fn wanted(seats: &[Seat]) -> String {
    seats.iter().map(Seat::describe).collect::<Vec<_>>().join(" and ")
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
        Vote::new(Person::new(name, roles.iter().copied()), Verdict::Approve, "", Timestamp(1))
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
