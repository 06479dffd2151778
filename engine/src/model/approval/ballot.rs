//! Ballots: seats, votes, and when the votes suffice. Pure. The core enforces the rules, so no endpoint can bypass
//! them.

use super::separation::find_tie;
use super::vote::{delegated, describe_seats};
use crate::{
    ApprovalChange, ApprovalHistoryEntry, Person, PlanDigest, Procedure, Refusal, Ruling, Seat, Separation,
    Verdict, Vote, VoteDelegation,
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// An approval in progress, bound to one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// The plan that the votes decide on.
    pub digest: PlanDigest,
    /// The seats to fill.
    pub seats: Vec<Seat>,
    /// Votes so far.
    pub votes: Vec<Vote>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it expires or is extended.
    pub deadline: Option<Timestamp>,
    /// How it ended. A paused execution continues only when it is resumed.
    pub ruling: Option<Ruling>,
    /// Escalations, extension, reminders and break-glass.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// Changes other than votes, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<ApprovalHistoryEntry>,
    /// Until when the timetable has been applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "rung")]
    pub reminded_until: Option<Timestamp>,
}

impl Ballot {
    /// Opens a ballot on `digest`, without votes.
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
            reminded_until: None,
        }
    }

    /// Sets the procedure.
    #[must_use]
    pub fn with_procedure(self, procedure: Procedure) -> Self {
        Self { procedure, ..self }
    }

    /// Counts `vote`. Refuses voters who requested the execution, act for the requester, have voted, or hold none of
    /// the roles of the seats.
    ///
    /// # Errors
    /// Returns a refusal that names the rule.
    pub fn cast(&mut self, vote: Vote, digest: &PlanDigest, requested_by: &str) -> Result<(), Refusal> {
        self.cast_among(vote, digest, &[Person::new(requested_by, [""; 0])])
    }

    /// Counts `vote`, where `asked` are the people who requested the plan or changed it. None of them can decide.
    ///
    /// # Errors
    /// Returns a refusal that names the rule.
    pub(crate) fn cast_among(
        &mut self,
        vote: Vote,
        digest: &PlanDigest,
        asked: &[Person],
    ) -> Result<(), Refusal> {
        if *digest != self.digest {
            return Err(Refusal::PlanChanged {
                offered: digest.to_string(),
                current: self.digest.to_string(),
            });
        }
        asked.iter().try_for_each(|person| self.check_interests(&vote, &person.name))?;
        let vote = delegated(vote)?;
        let counted = |name: &str| self.votes.iter().any(|cast| cast.names().any(|other| other == name));
        if let Some(person) = vote.names().find(|name| counted(name)) {
            return Err(Refusal::VotedBefore { person: person.into() });
        }
        let vote = self.separated(vote, asked)?;
        match vote.verdict {
            Verdict::Approve if vote.break_glass => self.break_glass(vote),
            Verdict::Approve => self.add_approval(vote),
            Verdict::Refuse => self.refuse(vote),
        }
    }

    /// Checks that the voter is separate from the other people of the ballot. If the check is not enforced, the vote
    /// counts and records the tie.
    ///
    /// A refusal needs no second person, so it always counts.
    fn separated(&self, vote: Vote, asked: &[Person]) -> Result<Vote, Refusal> {
        let tie = match vote.verdict {
            Verdict::Approve => find_tie(&vote, asked, &self.votes),
            Verdict::Refuse => None,
        };
        match (tie, vote.separation) {
            (Some(tie), Separation::Enforced) => Err(Refusal::NotSeparate { person: vote.person.name, tie }),
            (tie, Separation::Enforced | Separation::NotEnforced) => {
                Ok(Vote { tie, parties: std::collections::BTreeMap::new(), ..vote })
            }
        }
    }

    /// Refuses the vote of the requester, and of anyone who held a delegation to or from the requester since the
    /// ballot was opened.
    fn check_interests(&self, vote: &Vote, requested_by: &str) -> Result<(), Refusal> {
        for name in vote.names() {
            if name == requested_by {
                return Err(Refusal::OwnRequest { person: name.into() });
            }
            let stands = |mandate: &&VoteDelegation| mandate.from == requested_by && mandate.to == name;
            let during = |mandate: &VoteDelegation| mandate.touches(self.opened_at, vote.at);
            if vote.mandates.iter().filter(stands).any(during) {
                return Err(Refusal::ForRequester { person: name.into(), requester: requested_by.into() });
            }
        }
        Ok(())
    }

    fn not_entitled(&self, vote: &Vote) -> Refusal {
        Refusal::NotEntitled { person: vote.principal().name.clone(), wanted: self.describe_seats() }
    }

    fn has_seat_for(&self, vote: &Vote) -> bool {
        self.seats.iter().any(|seat| seat.matches(vote.principal()))
    }

    fn add_approval(&mut self, vote: Vote) -> Result<(), Refusal> {
        let (before, fails) = (self.seats_filled(), self.not_entitled(&vote));
        self.votes.push(vote);
        if self.seats_filled() == before {
            self.votes.pop();
            return Err(fails);
        }
        if self.is_filled() {
            self.ruling = Some(Ruling::Granted);
        }
        Ok(())
    }

    fn refuse(&mut self, vote: Vote) -> Result<(), Refusal> {
        if !self.has_seat_for(&vote) {
            return Err(self.not_entitled(&vote));
        }
        if vote.reason.trim().is_empty() {
            return Err(Refusal::ReasonMissing { least: 1 });
        }
        self.votes.push(vote);
        self.ruling = Some(Ruling::Refused);
        Ok(())
    }

    /// Counts a break-glass vote: one person decides, in their own right.
    fn break_glass(&mut self, vote: Vote) -> Result<(), Refusal> {
        let person = vote.person.name.clone();
        let Some(glass) = &self.procedure.break_glass else {
            return Err(Refusal::NoBreakGlass { person, wanted: "nobody".into() });
        };
        let entitled = glass.any_of.iter().any(|role| vote.person.roles.contains(role));
        if !entitled || vote.on_behalf_of.is_some() {
            return Err(Refusal::NoBreakGlass { person, wanted: glass.any_of.join(" or ") });
        }
        if vote.reason.trim().chars().count() < glass.reason_at_least.max(1) as usize {
            return Err(Refusal::ReasonMissing { least: glass.reason_at_least.max(1) });
        }
        self.votes.push(vote);
        self.ruling = Some(Ruling::Granted);
        Ok(())
    }

    /// Removes the vote that `by` cast, or that was cast for `by`, while nothing is decided. They may vote again.
    ///
    /// # Errors
    /// Returns [`Refusal::NoVote`] if there is no such vote.
    pub fn withdraw(&mut self, by: &str, reason: &str, at: Timestamp) -> Result<(), Refusal> {
        let none = || Refusal::NoVote { person: by.into() };
        if self.ruling.is_some() {
            return Err(none());
        }
        let place =
            self.votes.iter().position(|vote| vote.names().any(|name| name == by)).ok_or_else(none)?;
        let vote = Box::new(self.votes.remove(place));
        self.record_change(at, ApprovalChange::Withdrawn { vote, by: by.into(), reason: reason.into() });
        Ok(())
    }

    /// Returns the break-glass vote, if there is one.
    #[must_use]
    pub fn break_glass_vote(&self) -> Option<&Vote> {
        self.votes.iter().find(|vote| vote.break_glass)
    }

    /// Returns how many people must agree.
    #[must_use]
    pub fn seats_required(&self) -> usize {
        self.seats.iter().map(|seat| seat.count as usize).sum()
    }

    /// Returns true if every place is filled and there is at least one.
    pub(crate) fn is_filled(&self) -> bool {
        let places = self.seats_required();
        places > 0 && self.seats_filled() == places
    }

    /// Returns how many places the approving votes fill, one for each person (a maximum matching of people to
    /// places).
    #[must_use]
    pub fn seats_filled(&self) -> usize {
        let places: Vec<&Seat> =
            self.seats.iter().flat_map(|seat| (0..seat.count).map(move |_| seat)).collect();
        let yes: Vec<&Person> =
            self.votes.iter().filter(|vote| vote.verdict == Verdict::Approve).map(Vote::principal).collect();
        let mut sits: Vec<Option<usize>> = vec![None; places.len()];
        (0..yes.len())
            .filter(|&voter| find_seat(voter, &yes, &places, &mut sits, &mut vec![false; places.len()]))
            .count()
    }

    /// Describes the seats: `1 of platform_ops or admin and 1 of security`.
    #[must_use]
    pub fn describe_seats(&self) -> String {
        describe_seats(&self.seats)
    }
}

/// Kuhn's augmenting path: finds a place for `voter`, and moves others to another matching place if necessary.
fn find_seat(
    voter: usize,
    people: &[&Person],
    places: &[&Seat],
    sits: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for (place, seat) in places.iter().enumerate() {
        let suits = people.get(voter).is_some_and(|person| seat.matches(person));
        let Some(seen) = tried.get_mut(place) else { continue };
        if !suits || std::mem::replace(seen, true) {
            continue;
        }
        let sitting = sits.get(place).copied().flatten();
        if sitting.is_none_or(|other| find_seat(other, people, places, sits, tried)) {
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
        let mut ballot = ballot(vec![Seat::new("ops", 1)]);
        assert!(matches!(cast(&mut ballot, yes("requester", &["ops"])), Err(Refusal::OwnRequest { .. })));
        assert_eq!(ballot.ruling, None);
    }

    #[test]
    fn one_person_with_two_roles_fills_one_seat() {
        let mut ballot = ballot(vec![Seat::new("ops", 1), Seat::new("security", 1)]);
        cast(&mut ballot, yes("ada", &["ops", "security"])).unwrap();
        assert_eq!(ballot.ruling, None);
        assert!(matches!(cast(&mut ballot, yes("ada", &["security"])), Err(Refusal::VotedBefore { .. })));
        cast(&mut ballot, yes("bob", &["ops"])).unwrap();
        assert_eq!(ballot.ruling, Some(Ruling::Granted), "ada moves to the security seat");
    }

    #[test]
    fn a_vote_that_fills_no_seat_is_refused() {
        let mut ballot = ballot(vec![Seat::new("ops", 1), Seat::new("security", 1)]);
        cast(&mut ballot, yes("ada", &["ops"])).unwrap();
        assert!(matches!(cast(&mut ballot, yes("bob", &["ops"])), Err(Refusal::NotEntitled { .. })));
    }

    #[test]
    fn a_vote_for_another_plan_is_refused() {
        let mut ballot = ballot(vec![Seat::new("ops", 1)]);
        let late = ballot.cast(yes("ada", &["ops"]), &PlanDigest("old".into()), "requester");
        assert!(matches!(late, Err(Refusal::PlanChanged { .. })));
    }
}
