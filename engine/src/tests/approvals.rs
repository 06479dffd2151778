//! Approvers, delegations, deadlines and timetables, by direct calls of the core.

use crate::tests::one_approval::{Asked, Question, START, State, mandate, person};
use crate::{
    ApprovalChange, Attribution, Authoriser, BreakGlass, DAY, Escalation, Event, HOUR, Phase, Procedure,
    Refusal, Reminders, Ruling, Seat, Verdict, Vote,
};
use store::Timestamp;

fn escalating() -> Procedure {
    Procedure {
        escalate: vec![Escalation {
            after: 6 * HOUR,
            seats: vec![Seat::new("lead", 1), Seat::new("ops", 1)],
        }],
        ..Procedure::default()
    }
}

fn glass(destroys: bool) -> Procedure {
    let break_glass = BreakGlass { any_of: vec!["breakglass".into()], reason_at_least: 10, destroys };
    Procedure { break_glass: Some(break_glass), ..Procedure::default() }
}

fn glass_vote(asked: &Asked, name: &str, reason: &str) -> Vote {
    Vote {
        break_glass: true,
        ..Vote::new(person(name, &["breakglass"]), Verdict::Approve, reason, asked.now)
    }
}

const REASON: &str = "the cluster is on fire";

/// Refused: the requester, their delegate, and a person whose delegate they are.
#[test]
fn a_delegate_of_the_requester_cannot_decide() {
    let until = START.after(DAY);
    let requesters = mandate("rita", "dan", START, until);
    let mut asked = Asked::of(Question::plain());

    let own = Vote { mandates: vec![requesters.clone()], ..asked.vote("dan", &["ops"]) };
    assert!(matches!(asked.cast(own), Err(Refusal::ForRequester { .. })), "in their own right");

    let for_requester = Vote {
        on_behalf_of: Some(person("rita", &["ops"])),
        mandates: vec![requesters.clone()],
        ..asked.vote("dan", &["ops"])
    };
    assert!(matches!(asked.cast(for_requester), Err(Refusal::ForRequester { .. })), "for the requester");

    let for_delegate = Vote {
        on_behalf_of: Some(person("dan", &["ops"])),
        mandates: vec![requesters, mandate("dan", "eve", START, until)],
        ..asked.vote("eve", &["ops"])
    };
    assert!(matches!(asked.cast(for_delegate), Err(Refusal::ForRequester { .. })), "for their delegate");

    let requester = Vote {
        on_behalf_of: Some(person("ada", &["ops"])),
        mandates: vec![mandate("ada", "rita", START, until)],
        ..asked.vote("rita", &["ops"])
    };
    assert!(
        matches!(asked.cast(requester), Err(Refusal::OwnRequest { .. })),
        "the requester for another person"
    );
    assert!(asked.ballot().votes.is_empty());
}

/// A delegation that ended just before the vote does not make the voter independent.
#[test]
fn a_delegation_by_the_requester_that_ended_after_the_opening_still_excludes() {
    let mut asked = Asked::of(Question::plain());
    asked.now = START.after(2 * HOUR);
    let ended = |until| Vote {
        mandates: vec![mandate("rita", "dan", Timestamp(0), until)],
        ..asked.vote("dan", &["ops"])
    };
    let (since, before) = (ended(START.after(HOUR)), ended(START));

    assert!(matches!(asked.cast(since), Err(Refusal::ForRequester { .. })));
    asked.cast(before).unwrap();
}

#[test]
fn a_delegate_votes_for_another_person_and_both_are_recorded() {
    let mut asked = Asked::of(Question::plain());
    let until = START.after(DAY);
    let vote = Vote {
        on_behalf_of: Some(person("ada", &["ops", "admin"])),
        mandates: vec![
            mandate("ada", "dan", START, until),
            mandate("carl", "dan", START, until),
            mandate("eve", "ada", START, until),
        ],
        ..asked.vote("dan", &["clerk"])
    };

    asked.cast(vote).unwrap();

    let kept = asked.ballot().votes.first().unwrap();
    assert_eq!((kept.person.name.as_str(), kept.principal().name.as_str()), ("dan", "ada"));
    let used: Vec<_> = kept.mandates.iter().map(|mandate| mandate.id.as_str()).collect();
    assert_eq!(used, ["ada-dan"], "the delegation that was used is kept, and no other");
}

#[test]
fn a_delegation_that_is_inactive_or_of_another_role_does_not_count() {
    let mut asked = Asked::of(Question::plain());
    asked.now = START.after(HOUR);
    let (now, later) = (asked.now, START.after(DAY));
    let by = |asked: &Asked, mandate| Vote {
        on_behalf_of: Some(person("ada", &["ops"])),
        mandates: vec![mandate],
        ..asked.vote("dan", &[])
    };
    let over = by(&asked, mandate("ada", "dan", START, now));
    assert!(matches!(asked.cast(over), Err(Refusal::NotDelegated { .. })));
    let early = by(&asked, mandate("ada", "dan", now.after(HOUR), later));
    assert!(matches!(asked.cast(early), Err(Refusal::NotDelegated { .. })));
    let others = by(&asked, mandate("ada", "eve", START, later));
    assert!(matches!(asked.cast(others), Err(Refusal::NotDelegated { .. })));
    let some = crate::VoteDelegation { roles: vec!["finance".into()], ..mandate("ada", "dan", START, later) };
    let of_another_role = by(&asked, some);
    assert!(matches!(asked.cast(of_another_role), Err(Refusal::NotEntitled { .. })));
    let none = Vote { mandates: vec![], ..by(&asked, mandate("ada", "dan", START, later)) };
    assert!(matches!(asked.cast(none), Err(Refusal::NotDelegated { .. })));
}

/// Each person has one vote, cast personally or by a delegate.
#[test]
fn a_person_has_one_vote_even_with_delegations() {
    let mut asked = Asked::of(Question::plain());
    let until = START.after(DAY);
    let (for_ada, for_bob) = (mandate("ada", "dan", START, until), mandate("bob", "dan", START, until));
    let on_behalf = |asked: &Asked, of: &str| Vote {
        on_behalf_of: Some(person(of, &["ops"])),
        mandates: vec![for_ada.clone(), for_bob.clone()],
        ..asked.vote("dan", &["ops"])
    };
    let vote = on_behalf(&asked, "ada");
    asked.cast(vote).unwrap();

    assert!(matches!(asked.agree("dan", &["ops"]), Err(Refusal::VotedBefore { .. })), "in their own right");
    assert!(matches!(asked.agree("ada", &["ops"]), Err(Refusal::VotedBefore { .. })), "the person voted for");
    let vote = on_behalf(&asked, "bob");
    assert!(matches!(asked.cast(vote), Err(Refusal::VotedBefore { .. })), "for another");
    asked.agree("carl", &["ops"]).unwrap();
    assert_eq!(asked.exec.state, State::Listening);
}

#[test]
fn a_vote_can_be_withdrawn_before_the_decision_and_cast_again() {
    let mut asked = Asked::of(Question::plain());
    asked.agree("ada", &["ops"]).unwrap();
    assert!(matches!(asked.withdraw("bob"), Err(Refusal::NoVote { .. })));

    asked.withdraw("ada").unwrap();

    assert_eq!(asked.ballot().seats_filled(), 0);
    let history = &asked.ballot().history;
    assert!(
        matches!(&history[..], [h] if matches!(&h.what, ApprovalChange::Withdrawn { vote, by, .. } if vote.person.name == "ada" && by == "ada"))
    );
    asked.agree("ada", &["ops"]).unwrap();
    asked.agree("bob", &["ops"]).unwrap();
    assert!(asked.withdraw("ada").is_err(), "a decision is final");
    assert_eq!(asked.exec.state, State::Listening);
}

/// A person may withdraw the vote that was cast for them.
#[test]
fn the_person_voted_for_may_withdraw_the_vote() {
    let mut asked = Asked::of(Question::plain());
    let vote = Vote {
        on_behalf_of: Some(person("ada", &["ops"])),
        mandates: vec![mandate("ada", "dan", START, START.after(DAY))],
        ..asked.vote("dan", &[])
    };
    asked.cast(vote).unwrap();
    asked.withdraw("ada").unwrap();
    assert!(asked.ballot().votes.is_empty());
}

#[test]
fn a_refusal_without_a_reason_is_rejected() {
    let mut asked = Asked::of(Question::plain());
    let silent = Vote { verdict: Verdict::Refuse, reason: "  ".into(), ..asked.vote("ada", &["ops"]) };
    assert!(matches!(asked.cast(silent.clone()), Err(Refusal::ReasonMissing { .. })));
    asked.cast(Vote { reason: "too dear".into(), ..silent }).unwrap();
    assert!(matches!(asked.exec.phase, Phase::Finished { .. }));
}

#[test]
fn an_escalation_replaces_the_seats_and_counts_earlier_votes_that_match_one() {
    let mut asked = Asked::of(Question::held_by(escalating()));
    asked.agree("ada", &["ops"]).unwrap();

    assert_eq!(asked.ring(), "escalated");

    assert_eq!(asked.ballot().describe_seats(), "1 of lead and 1 of ops");
    assert_eq!(asked.ballot().seats_filled(), 1, "ada's vote still counts");
    assert!(matches!(asked.agree("bob", &["ops"]), Err(Refusal::NotEntitled { .. })));
    asked.agree("lea", &["lead"]).unwrap();
    assert_eq!(asked.exec.state, State::Listening);
}

/// An escalation without seats would grant the approval without votes.
#[test]
fn an_escalation_with_filled_seats_decides_and_one_without_seats_does_not() {
    let to = |seats| Procedure { escalate: vec![Escalation { after: HOUR, seats }], ..Procedure::default() };
    let mut asked = Asked::of(Question::held_by(to(vec![Seat::new("ops", 1)])));
    asked.agree("ada", &["ops"]).unwrap();
    asked.ring();
    assert_eq!(asked.exec.state, State::Listening);

    let mut asked = Asked::of(Question::held_by(to(vec![])));
    asked.ring();
    assert_eq!((asked.exec.state, asked.ballot().ruling), (State::Asking, None));
}

#[test]
fn a_deadline_is_extended_once_and_then_it_expires() {
    let mut asked = Asked::of(Question::held_by(Procedure { extend: Some(HOUR), ..Procedure::default() }));
    assert_eq!(asked.ring(), "extended");
    assert_eq!(asked.ballot().deadline, Some(START.after(DAY + HOUR)));
    asked.agree("ada", &["ops"]).unwrap();
    assert_eq!(asked.ring(), "deadline_passed");
    assert!(matches!(asked.exec.phase, Phase::Finished { outcome: crate::Outcome::Expired, .. }));
}

/// S38: a due event applies even if its alarm is late.
#[test]
fn a_vote_sees_the_timetable_applied_even_if_the_alarm_is_late() {
    let procedure = Procedure { extend: Some(DAY), ..escalating() };
    let mut asked = Asked::of(Question::held_by(procedure));
    asked.now = START.after(DAY + HOUR);

    let taken = asked.agree("lea", &["lead"]);

    taken.unwrap();
    assert_eq!(asked.ballot().stage(), 2, "escalated and extended on the way");
    asked.now = START.after(2 * DAY);
    assert!(matches!(asked.agree("ada", &["ops"]), Err(Refusal::TooLate { .. })));
}

/// A duplicate alarm changes nothing.
#[test]
fn a_duplicate_or_early_alarm_changes_nothing() {
    let remind = Reminders { before: vec![HOUR], every: None };
    let procedure = Procedure { extend: Some(HOUR), remind, ..escalating() };
    let mut asked = Asked::of(Question::held_by(procedure));
    for expected in ["escalated", "reminded", "extended"] {
        let (due, event) = asked.alarm().unwrap();
        assert_eq!(event.name(), expected);
        let before = asked.exec.ballot.clone();
        asked.now = Timestamp(due.0 - 1);
        let early = asked.take(event.clone()).unwrap();
        assert_eq!(asked.exec.ballot, before, "{expected} before its time");
        assert_eq!(early.effects.len(), 1, "it is set again");
        asked.ring();
        let after = asked.exec.ballot.clone();
        assert!(matches!(asked.take(event), Err(Refusal::Stale)));
        assert_eq!(asked.exec.ballot, after, "{expected} twice");
    }
}

/// Reminders have their times, and missed ones are merged.
#[test]
fn reminders_come_before_the_deadline_and_missed_ones_are_one() {
    let remind = Reminders { before: vec![HOUR, 4 * HOUR, 9 * DAY], every: Some(10 * HOUR) };
    let procedure = Procedure { remind, ..Procedure::default() };
    let mut asked = Asked::of(Question::held_by(procedure.clone()));
    let mut hours = Vec::new();
    while asked.exec.state == State::Asking && asked.exec.ballot.is_some() {
        asked.ring();
        hours.push(asked.now.since(START).as_secs() / 3_600);
    }
    assert_eq!(hours, [10, 20, 23, 24]);

    let mut late = Asked::of(Question::held_by(procedure));
    late.now = START.after(21 * HOUR);
    late.ring();
    assert_eq!(late.ballot().history.len(), 1, "two that were missed are one");
    assert_eq!(late.alarm().unwrap().0, START.after(23 * HOUR));
}

/// A vote is for one plan: a change voids it at once, and a late vote for the old plan is refused.
#[test]
fn votes_are_void_as_soon_as_the_plan_changes() {
    let mut asked = Asked::of(Question::plain());
    asked.agree("ada", &["ops"]).unwrap();
    let old = asked.exec.digest();
    asked.exec.data.plan = 2;

    let late = asked.vote("bob", &["ops"]);
    assert!(matches!(asked.cast_for(late, &old), Err(Refusal::PlanChanged { .. })));
    asked.agree("bob", &["ops"]).unwrap();

    let ballot = asked.ballot();
    assert_eq!((ballot.digest.clone(), ballot.seats_filled()), (asked.exec.digest(), 1));
    assert!(
        matches!(&ballot.history[..], [h] if matches!(&h.what, ApprovalChange::Voided { digest, votes } if *digest == old && votes.len() == 1))
    );
    asked.agree("ada", &["ops"]).unwrap();
    assert_eq!(asked.exec.state, State::Listening);
}

/// Break-glass needs a policy, an entitled person and a reason, and is recorded.
#[test]
fn break_glass_needs_an_entitled_person_and_a_reason_and_excludes_the_requester() {
    let mut plain = Asked::of(Question::plain());
    let vote = glass_vote(&plain, "bea", REASON);
    assert!(matches!(plain.cast(vote), Err(Refusal::NoBreakGlass { .. })), "policy says nothing of it");

    let mut asked = Asked::of(Question::held_by(glass(false)));
    let requester = glass_vote(&asked, "rita", REASON);
    assert!(matches!(asked.cast(requester), Err(Refusal::OwnRequest { .. })));
    let short = glass_vote(&asked, "bea", "fire     ");
    assert!(matches!(asked.cast(short), Err(Refusal::ReasonMissing { least: 10 })));
    let ops = Vote { person: person("ada", &["ops"]), ..glass_vote(&asked, "ada", REASON) };
    assert!(matches!(asked.cast(ops), Err(Refusal::NoBreakGlass { .. })));
    let delegate = Vote {
        on_behalf_of: Some(person("bea", &["breakglass"])),
        mandates: vec![mandate("bea", "dan", START, START.after(DAY))],
        ..glass_vote(&asked, "dan", REASON)
    };
    assert!(
        matches!(asked.cast(delegate), Err(Refusal::NoBreakGlass { .. })),
        "break-glass cannot be used for another person"
    );
    let plainly = asked.vote("bea", &["breakglass"]);
    assert!(matches!(asked.cast(plainly), Err(Refusal::NotEntitled { .. })), "the role takes no seat");

    let vote = glass_vote(&asked, "bea", REASON);
    asked.cast(vote).unwrap();

    assert_eq!(asked.exec.state, State::Listening);
    let by = &asked.exec.authorisation.as_ref().unwrap().by;
    assert_eq!(*by, Authoriser::BreakGlass { person: "bea".into(), destroys: false });
}

/// Break-glass does not allow a destruction unless policy allows it, even if the step changed later.
#[test]
fn break_glass_allows_no_destruction_unless_policy_allows_it() {
    let destroys = |procedure| Question { destroys: true, ..Question::held_by(procedure) };
    let mut asked = Asked::of(destroys(glass(false)));
    let vote = glass_vote(&asked, "bea", REASON);
    assert!(matches!(asked.cast(vote), Err(Refusal::BreakGlassDestroys { .. })));

    let mut may = Asked::of(destroys(glass(true)));
    let vote = glass_vote(&may, "bea", REASON);
    may.cast(vote).unwrap();
    may.take(Event::Signalled { name: "go".into() }).unwrap();
    assert!(may.exec.pivot.is_some());

    // The step became destructive after the break-glass: the authorisation does not suffice, and the approval opens
    // again.
    let mut turned = Asked::of(Question::held_by(glass(false)));
    let vote = glass_vote(&turned, "bea", REASON);
    turned.cast(vote).unwrap();
    turned.exec.data.destroys = true;
    turned.take(Event::Signalled { name: "go".into() }).unwrap();
    assert_eq!((turned.exec.state, &turned.exec.pivot), (State::Asking, &None));
}

/// Neither a vote nor an alarm changes a ruling that was reached during a pause.
#[test]
fn a_ruling_never_changes() {
    let mut asked = Asked::of(Question::held_by(Procedure { extend: Some(HOUR), ..escalating() }));
    let order = Attribution { by: "olga".into(), reason: String::new() };
    asked.take(Event::PauseRequested(order)).unwrap();
    asked.agree("ada", &["ops"]).unwrap();
    asked.agree("bob", &["ops"]).unwrap();
    assert_eq!(asked.ballot().ruling, Some(Ruling::Granted));

    asked.now = START.after(3 * DAY);
    let visit = asked.exec.visit;
    asked.take(Event::DeadlinePassed { visit }).unwrap();
    assert!(asked.agree("lea", &["lead"]).is_err());
    assert!(asked.withdraw("ada").is_err());

    assert_eq!(asked.ballot().ruling, Some(Ruling::Granted));
}

/// A document of an earlier version has none of these fields.
#[test]
fn a_ballot_written_before_there_were_procedures_is_read_and_written_the_same() {
    let old = r#"{"digest":"sha256:0","seats":[{"any_of":["ops"],"count":2}],"votes":[{"person":{"name":"ada","roles":["ops"]},"verdict":"approve","reason":"","at":5}],"opened_at":1,"deadline":9,"ruling":null}"#;
    let ballot: crate::Ballot = serde_json::from_str(old).unwrap();
    assert_eq!(serde_json::to_string(&ballot).unwrap(), old);
}
