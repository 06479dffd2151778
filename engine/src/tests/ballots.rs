//! Random histories of approvals: a granted approval has enough entitled approvers.

use crate::tests::{
    one_approval::{Asked, Question, START, State, mandate, person},
    random::Random,
};
use crate::{
    ActionError, ApprovalChange, Attribution, Ballot, BreakGlass, DAY, Escalation, Event, HOUR, MINUTE,
    Person, PlanDigest, Procedure, Reminders, Repair, Ruling, Seat, TaskRef, Verdict, Vote, VoteDelegation,
};
use serde_json::json;
use store::Timestamp;

const NAMES: [&str; 7] = ["rita", "ada", "bob", "carl", "dan", "eve", "bea"];
const ROLES: [&[&str]; 7] = [
    &["ops", "lead", "breakglass"],
    &["ops"],
    &["ops", "lead"],
    &["lead", "group:night"],
    &[],
    &["chief"],
    &["breakglass"],
];

/// The delegations.
fn mandates(random: &mut Random) -> Vec<VoteDelegation> {
    (0..random.below(9))
        .map(|_| {
            let since = START.after(HOUR * u32::try_from(random.below(10)).unwrap());
            let until = since.after(HOUR * u32::try_from(random.below(30)).unwrap());
            let (from, to) = (*random.pick(&NAMES), *random.pick(&NAMES));
            let roles = if random.one_in(3) { vec!["ops".into()] } else { vec![] };
            VoteDelegation { roles, ..mandate(from, to, since, until) }
        })
        .collect()
}

fn procedure(random: &mut Random) -> Procedure {
    let seats: [Vec<Seat>; 4] = [
        vec![Seat::new("lead", 1), Seat::new("ops", 1)],
        vec![Seat::new("lead", 2)],
        vec![Seat { any_of: vec!["chief".into(), "group:night".into()], count: 1 }],
        vec![],
    ];
    let escalate = (0..random.below(3)).map(|n| Escalation {
        after: HOUR * u32::try_from(1 + n * 8 + random.below(8)).unwrap(),
        seats: random.pick(&seats).clone(),
    });
    let escalate = escalate.collect();
    let hours = |random: &mut Random, most| HOUR * u32::try_from(1 + random.below(most)).unwrap();
    let remind = Reminders {
        before: (0..random.below(3)).map(|_| hours(random, 30)).collect(),
        every: random.one_in(2).then(|| hours(random, 9)),
    };
    let glass =
        BreakGlass { any_of: vec!["breakglass".into()], reason_at_least: 5, destroys: random.one_in(2) };
    Procedure {
        escalate,
        extend: random.one_in(2).then(|| hours(random, 20)),
        remind,
        break_glass: random.one_in(2).then_some(glass),
    }
}

fn vote(asked: &Asked, known: &[VoteDelegation], random: &mut Random) -> (Vote, PlanDigest) {
    let who = |random: &mut Random| usize::try_from(random.below(NAMES.len() as u64)).unwrap();
    let of = |place: usize| person(NAMES[place], ROLES[place]);
    let place = |name: &str| NAMES.iter().position(|known| *known == name).unwrap();
    let (voter, principal) = if random.one_in(2) && !known.is_empty() {
        let mandate = random.pick(known);
        (of(place(&mandate.to)), Some(of(place(&mandate.from))))
    } else {
        (of(who(random)), random.one_in(10).then(|| of(who(random))))
    };
    let involved = |name: &str| name == voter.name || principal.as_ref().is_some_and(|p| p.name == name);
    let vote = Vote {
        mandates: known.iter().filter(|mandate| involved(&mandate.to)).cloned().collect(),
        on_behalf_of: principal.clone(),
        break_glass: random.one_in(8),
        ..Vote::new(
            voter.clone(),
            if random.one_in(10) { Verdict::Refuse } else { Verdict::Approve },
            if random.one_in(3) { "" } else { "because" },
            asked.now,
        )
    };
    let old = PlanDigest("sha256:old".into());
    (vote, if random.one_in(8) { old } else { asked.exec.digest() })
}

/// Returns the seats that each person could fill, by an exhaustive search.
fn seated(voters: &[&Person], seats: &[Seat]) -> bool {
    let Some((voter, rest)) = voters.split_first() else {
        return seats.iter().all(|seat| seat.count == 0);
    };
    let takes = (0..seats.len()).any(|place| {
        let mut left = seats.to_vec();
        let seat = &mut left[place];
        let suits = seat.count > 0 && seat.any_of.iter().any(|role| voter.roles.contains(role));
        seat.count = seat.count.saturating_sub(1);
        suits && seated(rest, &left)
    });
    takes || seated(rest, seats)
}

/// Checks that `ballot` may have been granted, by the rules and independently of the code.
fn lawful(ballot: &Ballot, known: &[VoteDelegation], roles: &dyn Fn(&str) -> Vec<String>) {
    let mut names = Vec::new();
    for vote in &ballot.votes {
        assert_eq!(vote.verdict, Verdict::Approve);
        let involved = [Some(&vote.person), vote.on_behalf_of.as_ref()];
        for person in involved.into_iter().flatten() {
            assert_ne!(person.name, "rita", "the requester");
            assert!(!names.contains(&person.name), "{} twice", person.name);
            names.push(person.name.clone());
            let stands = known.iter().any(|mandate| {
                mandate.from == "rita"
                    && mandate.to == person.name
                    && mandate.since < mandate.until
                    && mandate.since <= vote.at
                    && mandate.until > ballot.opened_at
            });
            assert!(!stands, "{} has a delegation of the requester", person.name);
        }
        if let Some(principal) = &vote.on_behalf_of {
            let holds = |mandate: &&VoteDelegation| {
                mandate.from == principal.name
                    && mandate.to == vote.person.name
                    && mandate.since <= vote.at
                    && vote.at < mandate.until
            };
            let held: Vec<_> = known.iter().filter(holds).collect();
            assert!(!held.is_empty(), "no delegation covers it");
            for role in &principal.roles {
                assert!(roles(&principal.name).contains(role));
                assert!(held.iter().any(|m| m.roles.is_empty() || m.roles.contains(role)), "{role}");
            }
        }
        assert!(ballot.deadline.is_none_or(|deadline| vote.at < deadline), "after the deadline");
    }
    if let Some(vote) = ballot.break_glass_vote() {
        let glass = ballot.procedure.break_glass.as_ref().unwrap();
        assert!(vote.on_behalf_of.is_none() && vote.reason.len() >= glass.reason_at_least as usize);
        assert!(glass.any_of.iter().any(|role| roles(&vote.person.name).contains(role)));
        return;
    }
    let voters: Vec<&Person> = ballot.votes.iter().map(Vote::principal).collect();
    assert!(ballot.seats_required() > 0 && seated(&voters, &ballot.seats), "{ballot:?}");
}

/// Checks that an event of the timetable is in a ballot's history as often as policy says.
fn timely(ballot: &Ballot) {
    let times =
        |wanted: fn(&ApprovalChange) -> bool| ballot.history.iter().filter(|h| wanted(&h.what)).count();
    assert!(
        times(|what| matches!(what, ApprovalChange::Escalated { .. })) <= ballot.procedure.escalate.len()
    );
    assert!(times(|what| matches!(what, ApprovalChange::Extended { .. })) <= 1);
    assert!(ballot.history.is_sorted_by_key(|happened| happened.at));
    let reminded: Vec<_> = ballot
        .history
        .iter()
        .filter(|h| h.what == ApprovalChange::Reminded)
        .map(|happened| happened.at)
        .collect();
    let before = reminded.len();
    let mut distinct = reminded;
    distinct.dedup();
    assert!(before <= distinct.len() + ballot.stage(), "two reminders at once: {ballot:?}");
}

struct History {
    asked: Asked,
    random: Random,
    known: Vec<VoteDelegation>,
    /// The decisions, and their plans.
    ruled: Option<(Ruling, u32)>,
}

impl History {
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let destroys = random.one_in(3);
        let question = Question { destroys, ..Question::held_by(procedure(&mut random)) };
        let known = mandates(&mut random);
        Self { asked: Asked::of(question), random, known, ruled: None }
    }

    fn event(&mut self) -> Event {
        let visit = self.asked.exec.visit;
        let name = (*self.random.pick(&NAMES)).to_owned();
        let order = Attribution { by: name, reason: "so".into() };
        match self.random.below(22) {
            0..=9 => {
                let (vote, digest) = vote(&self.asked, &self.known, &mut self.random);
                Event::Voted { vote, digest }
            }
            10 | 11 => Event::VoteWithdrawn(order),
            12..=15 => self.asked.alarm().map_or(Event::DeadlinePassed { visit }, |(_, event)| event),
            16 => Event::PauseRequested(order),
            17 => Event::ResumeRequested(order),
            18 => Event::RetryRequested(order),
            19 => self.steer(order),
            _ => Event::Signalled { name: "go".into() },
        }
    }

    /// Other events of operators: repairs, confirmations, results of attempts.
    fn steer(&mut self, order: Attribution) -> Event {
        let (ticket, slot) = (TaskRef { visit: self.asked.exec.visit, slot: 0 }, 0);
        let evidence = "so they say".to_owned();
        let repair = match self.random.below(5) {
            0 => Repair::Edit { patch: json!({ "plan": self.random.below(5) }) },
            1 => Repair::Edit { patch: json!({ "destroys": true }) },
            2 => Repair::Skip { slot: None },
            3 => Repair::MarkDone { slot, output: json!(null), evidence },
            _ => {
                return Event::Settled {
                    ticket,
                    result: Err(ActionError::permanent("it.fails", "so")),
                    tried: None,
                };
            }
        };
        let event = Event::Repaired { repair, order };
        if self.random.one_in(2) {
            event
        } else {
            Event::Seconded { event: Box::new(event), by: "zoe".into() }
        }
    }

    fn step(&mut self) {
        let due = self.asked.alarm().map_or(self.asked.now, |(due, _)| due);
        self.asked.now = match self.random.below(6) {
            0 => self.asked.now.max(due),
            1 => self.asked.now.after(HOUR * 5),
            _ => self.asked.now.after(MINUTE),
        };
        if self.random.one_in(30) {
            self.asked.exec.data.plan += 1;
        }
        let before = self.asked.exec.clone();
        let event = self.event();
        let Ok(taken) = self.asked.take(event) else {
            assert_eq!(self.asked.exec.ballot, before.ballot, "a refused event changes nothing");
            return;
        };
        if taken.execution.states_entered != before.states_entered {
            self.ruled = None;
        }
        let closed = taken.closed.map(|(_, ballot)| ballot);
        for ballot in closed.iter().chain(&taken.execution.ballot) {
            timely(ballot);
            if let Some(before) = before.ballot.as_ref().and_then(|ballot| ballot.ruling) {
                assert!(
                    ballot.ruling == Some(before) || ballot.opened_at == self.asked.now,
                    "another ruling"
                );
            }
            if ballot.ruling == Some(Ruling::Granted) {
                let roles = |name: &str| {
                    let place = NAMES.iter().position(|known| *known == name).unwrap();
                    ROLES[place].iter().map(|role| (*role).to_owned()).collect()
                };
                lawful(ballot, &self.known, &roles);
            }
        }
        self.authorised(&before, closed.as_ref());
    }

    /// Only a granted ballot on this plan authorises, and nothing passes without an authorisation.
    fn authorised(&self, before: &crate::Execution<Question>, closed: Option<&Ballot>) {
        let after = &self.asked.exec;
        if let Some(given) =
            after.authorisation.as_ref().filter(|_| after.authorisation != before.authorisation)
        {
            let ballot = closed.expect("an authorisation without a ballot");
            assert_eq!((ballot.ruling, &ballot.digest), (Some(Ruling::Granted), &given.digest));
        }
        if after.pivot.is_some() && before.pivot.is_none() {
            let given = after.authorisation.as_ref().expect("a pivot without an authorisation");
            assert_eq!(given.digest, after.digest());
            assert!(!after.data.destroys || given.by.is_people(), "destroyed by break-glass only");
        }
    }
}

/// With random votes, withdrawals, refusals, deadlines, escalations, changes of the plan and delegations.
#[test]
fn a_granted_approval_has_enough_entitled_approvers_in_time_on_this_plan() {
    let (mut granted, mut broken, mut escalated, mut delegated) = (0, 0, 0, 0);
    for seed in 1..=3_000 {
        let mut history = History::of(seed);
        for _ in 0..60 {
            let before = history.asked.exec.ballot.clone();
            history.step();
            if let Some(before) = before.filter(|_| history.asked.exec.state == State::Listening) {
                granted += 1;
                let by = &history.asked.exec.authorisation.as_ref().unwrap().by;
                broken += usize::from(matches!(by, crate::Authoriser::BreakGlass { .. }));
                escalated += usize::from(
                    before.history.iter().any(|h| matches!(h.what, ApprovalChange::Escalated { .. })),
                );
                delegated += usize::from(before.votes.iter().any(|vote| vote.on_behalf_of.is_some()));
            }
        }
    }
    // The histories reach the relevant cases.
    assert!(
        granted > 150 && broken > 10 && escalated > 50 && delegated > 5,
        "{granted} {broken} {escalated} {delegated}"
    );
}

/// Checks the deadline that the other tests use.
#[test]
fn a_deadline_is_never_earlier_than_announced() {
    for seed in 1..=200 {
        let mut history = History::of(seed);
        let promised: Timestamp = START.after(DAY);
        for _ in 0..40 {
            history.step();
            if let Some(ballot) = history.asked.exec.ballot.as_ref().filter(|b| b.opened_at == START) {
                assert!(ballot.deadline.unwrap() >= promised);
            }
        }
    }
}
