//! What stands at one key, by itself, on random histories.

use super::toil::Dice;
use crate::{
    Gate, Limit, Rate, SECOND,
    limits::{Terms, Verdict},
};
use store::{ExecutionId, TaskId, Timestamp};

fn task(n: u64) -> TaskId {
    TaskId { execution: ExecutionId::new(Timestamp(n), [1; 10]), visit: 1, slot: 0 }
}

#[test]
fn no_more_are_inside_than_the_limit_allows_and_a_place_that_lapses_is_free() {
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let limit = Limit { concurrency: Some(3), ..Limit::of("cluster/eu-1") };
        let terms = Terms { limit: Some(&limit), ..Terms::default() };
        let (mut gate, mut inside) = (Gate::default(), Vec::<(TaskId, Timestamp)>::new());
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
                let (leaving, until) = inside[usize::try_from(dice.below(inside.len() as u64)).unwrap()];
                match dice.below(3) {
                    0 => gate.keep(leaving, until.after(5 * SECOND), false),
                    1 => assert_eq!(gate.admits(leaving, now, terms), Ok(()), "it is inside already"),
                    _ => _ = gate.leave(leaving, now, Verdict::Answered, None),
                }
                inside = gate.places.iter().map(|place| (place.task, place.until)).collect();
                inside.retain(|(_, until)| *until > now);
            }
        }
    }
}

#[test]
fn no_span_of_time_sees_more_begin_than_rate_and_burst_allow() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let rate = Rate { times: 1 + dice.below(7) as u32, per: 2 * SECOND, burst: 1 + dice.below(4) as u32 };
        let limit = Limit { rate: Some(rate), ..Limit::of("cluster/eu-1") };
        let terms = Terms { limit: Some(&limit), ..Terms::default() };
        let (mut gate, mut begun, mut now) = (Gate::default(), Vec::new(), Timestamp(1_000_000));
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
                    assert_eq!(gate.admits(task(n), then, terms), Ok(()), "it may begin when it was told to");
                }
            }
        }
        for (i, from) in begun.iter().enumerate() {
            for (j, to) in begun.iter().enumerate().skip(i) {
                let allowed = u64::from(rate.burst) * 2_000 + (to - from) * u64::from(rate.times);
                assert!(
                    (j - i + 1) as u64 * 2_000 <= allowed + 2_000,
                    "{} in {} ms by {rate:?}",
                    j - i + 1,
                    to - from
                );
            }
        }
        assert!(begun.len() > 20, "and it does let them begin");
    }
}
