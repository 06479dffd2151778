//! The breaker on random histories.

use super::random::Random;
use crate::{Breaker, BreakerRule, BreakerState, SECOND};
use store::{ExecutionId, TaskId, Timestamp};

fn task(n: u64) -> TaskId {
    TaskId { execution: ExecutionId::new(Timestamp(n), [1; 10]), visit: 1, slot: 0 }
}

/// Runs one tick of a random history: some attempts begin, some end.
struct History {
    dice: Random,
    rule: BreakerRule,
    breaker: Breaker,
    now: Timestamp,
    /// Attempts that began before the trip and have not ended.
    early: Vec<TaskId>,
    trial: Option<TaskId>,
    in_a_row: u32,
    spans: Vec<u64>,
}

impl History {
    fn step(&mut self, n: u64) {
        self.now = self.now.after(SECOND * u32::try_from(self.dice.below(4)).unwrap());
        let until = self.now.after(30 * SECOND);
        if self.dice.below(2) == 0 {
            let sound = self.breaker.state == BreakerState::Sound;
            if self.breaker.admits(task(n), self.now).is_ok() {
                assert!(sound || self.trial.is_none() || self.trial_lapsed(), "two trials at once");
                self.breaker.begin(task(n), until);
                if sound {
                    self.early.push(task(n));
                } else {
                    self.trial = Some(task(n));
                }
            } else {
                assert!(!sound, "a breaker that has not tripped allows all attempts");
            }
            return;
        }
        let from_trial = self.trial.filter(|_| self.dice.below(2) == 0);
        let Some(ending) = from_trial.or_else(|| self.early.pop()) else { return };
        let before = self.breaker;
        let deciding = matches!(before.state, BreakerState::Trying { task, .. } if task == ending);
        if self.dice.below(4) > 0 {
            let tripped = self.breaker.failed(ending, self.now, &self.rule);
            self.failed(before, deciding, tripped);
        } else {
            self.breaker.answered(ending);
            if before.state == BreakerState::Sound || deciding {
                assert_eq!(self.breaker, Breaker::default(), "an answer resets it");
                (self.in_a_row, self.spans) = (0, Vec::new());
            } else {
                assert_eq!(self.breaker, before, "an attempt from before the trip does not count");
            }
        }
        if Some(ending) == self.trial {
            self.trial = None;
        }
    }

    fn failed(&mut self, before: Breaker, deciding: bool, tripped: bool) {
        match before.state {
            BreakerState::Sound => {
                self.in_a_row += 1;
                assert_eq!(
                    tripped,
                    self.in_a_row >= self.rule.after,
                    "exactly after the limit of consecutive failures"
                );
            }
            BreakerState::Trying { .. } if deciding => assert!(tripped, "the trial decides"),
            BreakerState::Trying { .. } | BreakerState::Tripped { .. } => assert_eq!(self.breaker, before),
        }
        if tripped {
            let BreakerState::Tripped { until } = self.breaker.state else { panic!("{:?}", self.breaker) };
            let span = until.0 - self.now.0;
            assert!(span <= 60_000, "no span is longer than the cap");
            let wanted = self.spans.last().map_or(5_000, |last| (last * 2).min(60_000));
            assert_eq!(span, wanted, "each span is twice the one before");
            self.spans.push(span);
            assert!(self.breaker.admits(task(u64::MAX >> 20), Timestamp(until.0 - 1)).is_err());
            assert!(self.breaker.admits(task(u64::MAX >> 20), until).is_ok());
        }
    }

    fn trial_lapsed(&self) -> bool {
        match self.breaker.state {
            BreakerState::Trying { until, .. } => until <= self.now,
            // An attempt that began since the trip is the trial.
            BreakerState::Tripped { .. } | BreakerState::Sound => false,
        }
    }
}

#[test]
fn a_breaker_trips_after_failures_in_a_row_and_lets_one_attempt_decide() {
    for seed in 0..200 {
        let rule = BreakerRule { after: 4, span: 5 * SECOND, cap: 60 * SECOND };
        let mut history = History {
            dice: Random::new(seed),
            rule,
            breaker: Breaker::default(),
            now: Timestamp(1_000),
            early: Vec::new(),
            trial: None,
            in_a_row: 0,
            spans: Vec::new(),
        };
        for n in 1..300 {
            history.step(n);
        }
    }
}

#[test]
fn a_trial_that_is_lost_is_followed_by_another() {
    let rule = BreakerRule { after: 1, ..BreakerRule::default() };
    let mut breaker = Breaker::default();
    assert!(breaker.failed(task(1), Timestamp(0), &rule));
    breaker.begin(task(2), Timestamp(35_000));
    assert_eq!(breaker.admits(task(3), Timestamp(34_999)), Err(Timestamp(35_000)));
    breaker.renew(task(2), Timestamp(60_000));
    assert_eq!(breaker.admits(task(3), Timestamp(35_000)), Err(Timestamp(60_000)));

    assert_eq!(breaker.admits(task(3), Timestamp(60_000)), Ok(()));
    breaker.given_up(task(2), Timestamp(40_000));
    assert_eq!(breaker.admits(task(3), Timestamp(40_000)), Ok(()));
}
