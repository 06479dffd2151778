//! The event queue: events in the order of time, and events of one moment in the order of their scheduling.

use std::{cmp::Reverse, collections::BinaryHeap};

/// A time, in microseconds since the start.
pub type Moment = u64;

/// One second.
pub const SECOND: Moment = 1_000_000;
/// One millisecond.
pub const MILLI: Moment = 1_000;

/// The future events.
#[derive(Debug)]
pub struct Clockwork<E> {
    now: Moment,
    count: u64,
    waiting: BinaryHeap<Reverse<(Moment, u64, E)>>,
}

impl<E: Ord> Default for Clockwork<E> {
    fn default() -> Self {
        Self { now: 0, count: 0, waiting: BinaryHeap::new() }
    }
}

impl<E: Ord> Clockwork<E> {
    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Returns the number of scheduled events.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Schedules `event` in `wait` microseconds.
    pub fn after(&mut self, wait: Moment, event: E) {
        self.count += 1;
        self.waiting.push(Reverse((self.now + wait, self.count, event)));
    }

    /// Advances to the next event.
    pub fn go_on(&mut self) -> Option<E> {
        let Reverse((at, _, event)) = self.waiting.pop()?;
        self.now = at;
        Some(event)
    }
}

/// A histogram of spans with steps of a thirty-second, so that millions of them need little memory.
#[derive(Clone, Debug)]
pub struct Spans {
    counts: Vec<u64>,
    total: u64,
    most: u64,
}

impl Default for Spans {
    fn default() -> Self {
        Self { counts: vec![0; 64 * 32], total: 0, most: 0 }
    }
}

impl Spans {
    /// Adds a span.
    pub fn note(&mut self, span: u64) {
        let bits = 64 - span.leading_zeros();
        let place = if bits <= 5 { span } else { u64::from(bits - 5) * 32 + ((span >> (bits - 6)) & 31) };
        self.counts[usize::try_from(place).unwrap()] += 1;
        self.total += 1;
        self.most = self.most.max(span);
    }

    /// Returns the number of spans.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the longest span.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the quantile of `thousandths`, to one part in thirty-two.
    #[must_use]
    pub fn quantile(&self, thousandths: u64) -> u64 {
        let wanted = (self.total * thousandths).div_ceil(1_000);
        let mut seen = 0;
        for (place, count) in (0_u64..).zip(&self.counts) {
            seen += count;
            if seen >= wanted && *count > 0 {
                let (bits, part) = (place / 32, place % 32);
                let span = if bits == 0 { part } else { (32 + part) << (bits - 1) };
                return span.min(self.most);
            }
        }
        self.most
    }
}
