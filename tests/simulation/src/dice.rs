//! Random numbers from a seed and a purpose: each purpose has its own stream, so that reducing a case does not change
//! its other parts.

use std::{sync::Mutex, time::Duration};

/// An independent stream of numbers.
#[derive(Debug)]
pub struct Dice(Mutex<u64>);

impl Dice {
    /// The stream of `purpose` under `seed`.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a over the purpose, so that adjacent seeds and purposes are unrelated.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mixed = purpose.bytes().chain(seed.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, hash);
        Self(Mutex::new(mixed))
    }

    /// Returns any number (SplitMix64, Steele et al. 2014).
    pub fn draw(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// Returns true with a probability of `of` in a thousand.
    pub fn one_in_thousand(&self, of: u64) -> bool {
        self.below(1_000) < of
    }

    /// One of them.
    pub fn pick<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// A span from `least` to `most` milliseconds.
    pub fn span(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }
}
