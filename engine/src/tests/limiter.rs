//! The limiter of one key on random histories.

use super::random::Random;
use crate::{
    KeyClosure, Limit, Limiter, Rate, SECOND,
    limits::limiter::{KeyTerms, KeyVerdict},
};
use store::{ExecutionId, TaskId, Timestamp};

fn task(n: u64) -> TaskId {
    TaskId { execution: ExecutionId::new(Timestamp(n), [1; 10]), visit: 1, slot: 0 }
}

#[test]
fn permits_never_exceed_the_limit_and_an_expired_permit_is_free() {
    for seed in 0..100 {
        let mut dice = Random::new(seed);
        let limit = Limit { concurrency: Some(3), ..Limit::for_key("cluster/eu-1") };
        let terms = KeyTerms { limit: Some(&limit), ..KeyTerms::default() };
        let (mut gate, mut inside) = (Limiter::default(), Vec::<(TaskId, Timestamp)>::new());
        let mut now = Timestamp(1_000);
        for n in 1..200 {
            now = now.after(SECOND * u32::try_from(dice.below(5)).unwrap());
            inside.retain(|(_, until)| *until > now);
            if dice.below(2) == 0 {
                let admitted = gate.admits(task(n), now, terms).is_ok();
                assert_eq!(admitted, inside.len() < 3, "{gate:?}");
                if admitted {
                    let until = now.after(10 * SECOND);
                    gate.admit(task(n), now, until, terms);
                    inside.push((task(n), until));
                }
            } else if !inside.is_empty() {
                let chosen = usize::try_from(dice.below(inside.len() as u64)).unwrap();
                let (task, until) = inside[chosen];
                match dice.below(3) {
                    0 => {
                        inside[chosen].1 = until.after(5 * SECOND);
                        gate.extend_permit(task, inside[chosen].1, false);
                    }
                    1 => assert_eq!(gate.admits(task, now, terms), Ok(()), "it already has a permit"),
                    _ => {
                        gate.release(task, now, KeyVerdict::Answered, None);
                        inside.remove(chosen);
                    }
                }
            }
        }
    }
}

#[test]
fn no_time_span_has_more_starts_than_rate_and_burst_allow() {
    for seed in 0..60 {
        let mut dice = Random::new(seed);
        let rate = Rate { times: 1 + dice.below(7) as u32, per: 2 * SECOND, burst: 1 + dice.below(4) as u32 };
        let limit = Limit { rate: Some(rate), ..Limit::for_key("cluster/eu-1") };
        let terms = KeyTerms { limit: Some(&limit), ..KeyTerms::default() };
        let (mut gate, mut begun, mut now) = (Limiter::default(), Vec::new(), Timestamp(1_000_000));
        for n in 1..400 {
            now = Timestamp(now.0 + dice.below(300));
            match gate.admits(task(n), now, terms) {
                Ok(()) => {
                    gate.admit(task(n), now, now, terms);
                    begun.push(now.0);
                }
                Err(hold) => {
                    let then = hold.until.unwrap();
                    assert!(then > now && then.0 - now.0 <= 2_000, "{hold:?}");
                    assert_eq!(
                        gate.admits(task(n), then, terms),
                        Ok(()),
                        "it may begin at the announced time"
                    );
                }
            }
        }
        let interval = 2_000_000 / u64::from(rate.times);
        for (i, from) in begun.iter().enumerate() {
            for (j, to) in begun.iter().enumerate().skip(i) {
                let allowed = u64::from(rate.burst) + (to - from) * 1_000 / interval;
                let seen = (j - i + 1) as u64;
                assert!(seen <= allowed, "{seen} in {} ms by {rate:?}", to - from);
            }
        }
        assert!(begun.len() > 20, "and it does let them begin");
    }
}

/// A closure by one action does not shorten one by another action or by a person.
#[test]
fn a_key_stays_closed_until_the_latest_end_of_all_closures() {
    let by = |who: &str, until: Option<u64>| KeyClosure {
        until: until.map(Timestamp),
        why: "told to".into(),
        by: who.into(),
    };
    let mut gate = Limiter::default();
    for (closing, stands) in [
        (by("Dig", Some(90)), "Dig"),
        (by("Fill", Some(60)), "Dig"),
        (by("Fell", Some(120)), "Fell"),
        (by("ada", None), "ada"),
        (by("Dig", Some(900)), "ada"),
        (by("bob", None), "bob"),
    ] {
        gate.close(closing);
        assert_eq!(gate.closed.as_ref().unwrap().by, stands);
    }
}
