//! The time of a database that several servers share.
//!
//! The server synchronizes it with the database at the start and at intervals; between two of these the monotonic clock of the machine
//! carries it on. Invariant: once it is synchronized, setting the machine's wall clock changes nothing.

use super::{Clock, SystemClock};
use crate::BoxFuture;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::Timestamp;

/// A correction back by less than this only slows the clock down: one second. Answers of the database take different times.
const JITTER: Duration = Duration::from_secs(1);

/// The database's clock, as far as this machine knows it; the machine's own clock until it is synchronized.
#[derive(Debug, Default)]
pub struct SharedClock<C = SystemClock> {
    machine: C,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The time of the database, and the monotonic clock at that moment.
    anchor: Option<(Timestamp, Duration)>,
    /// The latest time that was given out.
    latest: Timestamp,
}

impl<C: Clock> SharedClock<C> {
    /// A clock that shows the time of `machine` until it is synchronized.
    #[must_use]
    pub fn new(machine: C) -> Self {
        Self { machine, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clock> Clock for SharedClock<C> {
    fn now(&self) -> Timestamp {
        let mut state = self.state();
        let (Some((theirs, since)), Some(monotonic)) = (state.anchor, self.machine.monotonic()) else {
            return self.machine.now();
        };
        let now = theirs.after(monotonic.saturating_sub(since));
        // A clock of the database that was really set back is followed.
        let shown = if state.latest.since(now) < JITTER { now.max(state.latest) } else { now };
        state.latest = shown;
        shown
    }

    fn monotonic(&self) -> Option<Duration> {
        self.machine.monotonic()
    }

    fn machine_time(&self) -> Timestamp {
        self.machine.now()
    }

    fn synchronize(&self, theirs: Timestamp, asked: Duration, answered: Duration) {
        let middle = asked.saturating_add(answered.saturating_sub(asked) / 2);
        self.state().anchor = Some((theirs, middle));
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }

    fn entropy(&self) -> [u8; 10] {
        self.machine.entropy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A machine whose two clocks are set by hand, in milliseconds.
    #[derive(Default)]
    struct Machine {
        wall: AtomicU64,
        monotonic: AtomicU64,
    }

    impl Machine {
        fn passes(&self, millis: u64) {
            self.wall.fetch_add(millis, Ordering::Relaxed);
            self.monotonic.fetch_add(millis, Ordering::Relaxed);
        }
    }

    impl Clock for Machine {
        fn now(&self) -> Timestamp {
            Timestamp(self.wall.load(Ordering::Relaxed))
        }
        fn monotonic(&self) -> Option<Duration> {
            Some(Duration::from_millis(self.monotonic.load(Ordering::Relaxed)))
        }
        fn sleep_until(&self, _: Timestamp) -> BoxFuture<'_, ()> {
            Box::pin(std::future::ready(()))
        }
        fn entropy(&self) -> [u8; 10] {
            [0; 10]
        }
    }

    fn synchronized(theirs: u64) -> SharedClock<Machine> {
        let clock = SharedClock::new(Machine::default());
        clock.machine.passes(5_000_000);
        let monotonic = clock.monotonic().unwrap();
        clock.synchronize(Timestamp(theirs), monotonic, monotonic);
        clock
    }

    #[test]
    fn servers_with_different_clocks_show_the_time_of_the_database() {
        let one = synchronized(1_000_000);
        let other = synchronized(1_000_000);
        other.machine.wall.fetch_add(20_000, Ordering::Relaxed);

        for machine in [&one.machine, &other.machine] {
            machine.passes(7_000);
        }

        assert_eq!((one.now(), other.now()), (Timestamp(1_007_000), Timestamp(1_007_000)));
    }

    #[test]
    fn a_machine_whose_clock_is_set_changes_no_time_of_the_database() {
        let clock = synchronized(1_000_000);
        for wall in [0, u64::MAX / 2] {
            clock.machine.wall.store(wall, Ordering::Relaxed);
            assert_eq!(clock.now(), Timestamp(1_000_000), "{wall}");
        }
    }

    #[test]
    fn a_small_correction_never_sets_the_time_back_and_a_database_set_back_is_followed() {
        let clock = synchronized(1_000_000);
        assert_eq!(clock.now(), Timestamp(1_000_000));
        let monotonic = clock.monotonic().unwrap();

        clock.synchronize(Timestamp(999_990), monotonic, monotonic);
        assert_eq!(clock.now(), Timestamp(1_000_000), "10 ms are jitter");
        clock.machine.passes(30);
        assert_eq!(clock.now(), Timestamp(1_000_020), "the correction is made up for");

        let monotonic = clock.monotonic().unwrap();
        clock.synchronize(Timestamp(500_000), monotonic, monotonic);
        assert_eq!(clock.now(), Timestamp(500_000));
    }

    #[test]
    fn a_clock_that_was_never_synchronized_shows_the_time_of_the_machine() {
        let clock = SharedClock::new(Machine::default());
        clock.machine.passes(42);
        assert_eq!(clock.now(), Timestamp(42));
    }
}
