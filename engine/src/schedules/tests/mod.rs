//! Tests of schedules.

mod clock;
mod commands;
#[cfg(feature = "testing")]
mod crashes;
mod decide;
mod fixture;
mod overlap;
mod runner;
mod times;
mod world;

use chrono::{DateTime, Utc};
use store::Timestamp;

/// Parses a moment.
fn at(text: &str) -> Timestamp {
    Timestamp(u64::try_from(text.parse::<DateTime<Utc>>().unwrap().timestamp_millis()).unwrap())
}

/// Pseudorandom numbers, the same on every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}
