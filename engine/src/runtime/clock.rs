//! Time and randomness: the only place that reads them from the machine.

pub(crate) mod shared;

use crate::BoxFuture;
use std::{
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use store::Timestamp;
use tokio::sync::watch;

/// The largest difference between a server's clock and that of the shared store: 30 seconds. A server with a larger
/// difference does no work.
pub const MAX_SKEW: Duration = Duration::from_secs(30);

/// Returns the time of an effect of `cause`, by a clock that shows `now`: never before its cause. A cause that is
/// further ahead than the clocks of two servers may differ comes from a wrong clock, and is ignored.
pub(crate) fn caused_at(now: Timestamp, cause: Timestamp) -> Timestamp {
    if cause.since(now) <= MAX_SKEW * 2 { now.max(cause) } else { now }
}

/// A clock and a source of unpredictable bytes.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed moment, by a clock that cannot be set, or `None` if there is no such clock.
    fn monotonic(&self) -> Option<Duration> {
        None
    }

    /// The time by the wall clock of this machine, which may differ from [`Clock::now`].
    fn machine_time(&self) -> Timestamp {
        self.now()
    }

    /// Adopts `theirs`, the time that a shared database showed between two readings of [`Clock::monotonic`]. A clock
    /// without a database ignores it.
    fn synchronize(&self, _theirs: Timestamp, _asked: Duration, _answered: Duration) {}

    /// Resolves when the clock has reached `at`.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'_, ()>;

    /// Returns bytes that make ids of the same millisecond unique.
    fn entropy(&self) -> [u8; 10];
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the home of the ban")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Option<Duration> {
        // The clock that includes suspended time: a laptop that wakes up has not jumped.
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
        Some(Duration::new(seconds, nanos))
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the home of the ban")]
    fn entropy(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        if getrandom::fill(&mut bytes).is_err() {
            // Without the system's source, the clock and a stack address make ids unique; ids are not secrets.
            let now = self.now().0.to_be_bytes();
            let here = std::ptr::from_ref(&bytes).addr().to_be_bytes();
            for (byte, source) in bytes.iter_mut().zip(now.iter().rev().chain(here.iter().rev())) {
                *byte = *source;
            }
        }
        bytes
    }
}

/// A clock that moves only when set. The ids count up.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
    made: Mutex<u64>,
}

impl ManualClock {
    /// Creates a clock that shows `now`.
    #[must_use]
    pub fn starting_at(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now), made: Mutex::new(0) }
    }

    /// Moves the clock by `span`.
    pub fn advance(&self, span: Duration) {
        self.now.send_modify(|now| *now = now.after(span));
    }

    /// Sets the clock, also backwards, as an operator or a time server does.
    pub fn set(&self, at: Timestamp) {
        self.now.send_replace(at);
    }

    /// Moves the clock to `at`, never backwards.
    pub fn advance_to(&self, at: Timestamp) {
        self.now.send_modify(|now| *now = at.max(*now));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        let mut changes = self.now.subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock, which is borrowed here.
            let _ = changes.wait_for(|now| *now >= at).await;
        })
    }

    fn entropy(&self) -> [u8; 10] {
        let mut made = self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *made += 1;
        let mut bytes = [0; 10];
        for (byte, source) in bytes.iter_mut().skip(2).zip(made.to_be_bytes()) {
            *byte = source;
        }
        bytes
    }
}

/// Measures how long work takes, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts the measurement.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the home of the ban")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_never_before_its_cause_unless_a_clock_was_set_back() {
        let at = |now, cause| caused_at(Timestamp(now), Timestamp(cause)).0;

        assert_eq!((at(5_000, 4_000), at(5_000, 5_200), at(5_000, 65_000)), (5_000, 5_200, 65_000));
        assert_eq!(at(5_000, 65_001), 5_000, "a cause more than a minute ahead is of a wrong clock");
    }
}
