//! Detects forward jumps of the machine's clock, so that a jump cannot end anything permanently.
//!
//! Compares the wall clock with the monotonic clock, and at the start with the last time in the store. Until an
//! operator confirms a jump, retention, ended contracts and approval deadlines are suspended. Invariant: without a
//! monotonic clock, no jump is detected.

use crate::{ActionError, Engine, Entity, Error, Event, MINUTE};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::{ExecutionId, Lease, Timestamp};

/// A larger forward jump, while the process runs, needs a confirmation: one hour.
pub const LARGEST_JUMP: Duration = Duration::from_secs(3_600);
/// If the last time in the store is further back at the start, the clock needs a confirmation: seven days.
pub const LONGEST_DOWNTIME: Duration = Duration::from_secs(7 * 86_400);

/// A forward jump of the clock that is not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockJump {
    /// The expected time.
    pub from: Timestamp,
    /// The time that the clock showed.
    pub to: Timestamp,
}

impl ClockJump {
    const ID: &'static str = "last";
}

impl Entity for ClockJump {
    const COLLECTION: &'static str = "clock-jumps";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        Self::ID.to_owned()
    }
}

/// Formats `at` in UTC as RFC 3339.
fn shown(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(chrono::DateTime::<chrono::Utc>::from_timestamp_millis);
    at.map(|at| at.to_rfc3339()).unwrap_or_default()
}

/// The observed clocks.
#[derive(Debug, Default)]
struct Observed {
    /// The wall clock and the monotonic clock when they last agreed.
    anchor: Option<(Timestamp, Duration)>,
    jump: Option<ClockJump>,
    /// True if this process has written the jump to the store.
    is_stored: bool,
}

impl Observed {
    fn observe(&mut self, wall: Timestamp, monotonic: Duration) {
        let Some((then, since)) = self.anchor else {
            self.anchor = Some((wall, monotonic));
            return;
        };
        let expected = then.after(monotonic.saturating_sub(since));
        let ahead = wall.since(expected) > LARGEST_JUMP;
        match self.jump {
            // The clock was set back, so the jump is gone.
            Some(jump) if !ahead || (wall < jump.to && wall.since(expected) <= LONGEST_DOWNTIME) => {
                self.jump = None;
                self.anchor = Some((wall, monotonic));
            }
            Some(_) => {}
            None if ahead => self.jump = Some(ClockJump { from: expected, to: wall }),
            None => self.anchor = Some((wall, monotonic)),
        }
    }

    fn confirm(&mut self, wall: Timestamp, monotonic: Duration) {
        (self.jump, self.is_stored) = (None, false);
        self.anchor = Some((wall, monotonic));
    }
}

/// The clock guard of one engine.
#[derive(Debug, Default)]
pub(crate) struct ClockGuard {
    observed: Mutex<Observed>,
    refuses_work: AtomicBool,
}

impl ClockGuard {
    fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the unconfirmed jump of the clock, if there is one now.
    #[must_use]
    pub fn clock_jump(&self) -> Option<ClockJump> {
        let monotonic = self.inner.clock.monotonic()?;
        let mut observed = self.inner.clock_guard.observed();
        observed.observe(self.inner.clock.now(), monotonic);
        observed.jump
    }

    /// Compares the clock with the last time in the store. Called once, before any work that a jump suspends.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn load_clock(&self) -> Result<(), Error> {
        let Some(monotonic) = self.inner.clock.monotonic() else { return Ok(()) };
        let now = self.inner.clock.now();
        let stored = self.transact(false, |view| view.get::<ClockJump>(ClockJump::ID)).await?;
        let last = self.last_time(now).await?;
        let slept = last.filter(|last| now.since(*last) > LONGEST_DOWNTIME);
        let jump = match stored {
            Some(jump) if now >= jump.to => Some(jump),
            Some(_) | None => slept.map(|from| ClockJump { from, to: now }),
        };
        {
            let mut observed = self.inner.clock_guard.observed();
            observed.anchor = Some((jump.map_or(now, |jump| jump.from), monotonic));
            (observed.jump, observed.is_stored) = (jump, stored.is_some());
        }
        self.watch_clock().await
    }

    /// Writes a detected jump to the store, and applies a confirmation that another process received.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn watch_clock(&self) -> Result<(), Error> {
        let Some(monotonic) = self.inner.clock.monotonic() else { return Ok(()) };
        let (jump, is_stored) = (self.clock_jump(), self.inner.clock_guard.observed().is_stored);
        if jump.is_none() && !is_stored {
            return Ok(());
        }
        let stored = self.transact(false, |view| view.get::<ClockJump>(ClockJump::ID)).await?;
        match (jump, stored) {
            // A server with a wrong clock must not follow one whose clock is right.
            (Some(_), None) if is_stored && !self.refuses_work() => {
                self.inner.clock_guard.observed().confirm(self.inner.clock.now(), monotonic);
                tracing::warn!("the jump of the clock was confirmed");
            }
            (Some(jump), None) => {
                self.transact(true, |view| view.put(&jump)).await?;
                self.inner.clock_guard.observed().is_stored = true;
                tracing::warn!(
                    from = shown(jump.from),
                    to = shown(jump.to),
                    "the clock jumped forward, or no server ran for a long time: retention, ended contracts and approval deadlines are suspended; if the clock is right, run `tenure store confirm-clock --reason TEXT`"
                );
            }
            (Some(_), Some(_)) => self.inner.clock_guard.observed().is_stored = true,
            (None, _) => {
                self.transact(true, |view| view.delete::<ClockJump>(ClockJump::ID)).await?;
                self.inner.clock_guard.observed().is_stored = false;
                tracing::warn!("the clock was set back; no confirmation is needed any more");
            }
        }
        Ok(())
    }

    /// Confirms the current time. Returns the jump that was unconfirmed.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn confirm_clock(&self) -> Result<Option<ClockJump>, Error> {
        let Some(monotonic) = self.inner.clock.monotonic() else { return Ok(None) };
        let own = self.clock_jump();
        let stored = self.transact(false, |view| view.get::<ClockJump>(ClockJump::ID)).await?;
        if stored.is_some() {
            self.transact(true, |view| view.delete::<ClockJump>(ClockJump::ID)).await?;
        }
        self.inner.clock_guard.observed().confirm(self.inner.clock.now(), monotonic);
        Ok(own.or(stored))
    }

    /// Stops or resumes leasing, for example while the clock differs from the database's.
    pub fn refuse_work(&self, refuses: bool) {
        self.inner.clock_guard.refuses_work.store(refuses, Ordering::Release);
    }

    /// Returns true if this engine leases no tasks.
    #[must_use]
    pub fn refuses_work(&self) -> bool {
        self.inner.clock_guard.refuses_work.load(Ordering::Acquire)
    }

    /// Refuses a vote after a deadline that passed only by a jump. Otherwise the vote would find the approval
    /// expired.
    pub(crate) async fn check_deadline(&self, id: ExecutionId, event: &Event) -> Result<(), Error> {
        if !matches!(event, Event::Voted { .. }) || self.clock_jump().is_none() {
            return Ok(());
        }
        let deadline = self.approval(id).await?.and_then(|case| case.deadline);
        if deadline.is_none_or(|deadline| deadline > self.inner.clock.now()) {
            return Ok(());
        }
        let why = "the clock jumped past the deadline of this approval, and no operator has confirmed the clock yet";
        Err(Error::Undecided(ActionError::transient("clock.unconfirmed", why)))
    }

    /// Returns true if `lease` is for the deadline of an approval while the clock is unconfirmed. The task is then
    /// returned unchanged after a while, so that it is due at once when the clock is right.
    pub(crate) async fn put_off_deadline(&self, lease: &Lease) -> Result<bool, Error> {
        if self.clock_jump().is_none() || self.approval(lease.task.id.execution).await?.is_none() {
            return Ok(false);
        }
        let (engine, task, epoch, due) = (self.clone(), lease.task.id, lease.epoch, lease.task.due);
        let pause = (self.inner.options.lease / 3).min(MINUTE);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            if let Err(error) = engine.hand_back(task, epoch, due, 0).await {
                tracing::debug!(%error, "a suspended deadline could not be returned; its lease will expire");
            }
        });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn at(hours: u64) -> Timestamp {
        Timestamp(1_800_000_000_000 + hours * HOUR)
    }

    fn elapsed(hours: u64) -> Duration {
        Duration::from_secs(hours * 3_600)
    }

    #[test]
    fn a_jump_is_what_the_wall_clock_gains_on_the_monotonic_clock() {
        let mut observed = Observed::default();
        observed.observe(at(0), elapsed(0));
        observed.observe(at(300), elapsed(300));
        assert_eq!(observed.jump, None, "time that passed on both clocks is no jump");
        observed.observe(at(302), elapsed(301));
        assert_eq!(observed.jump, None, "an hour is within the bound");

        observed.observe(at(10_000), elapsed(302));
        assert_eq!(observed.jump, Some(ClockJump { from: at(303), to: at(10_000) }));
        observed.observe(at(10_500), elapsed(802));
        assert!(observed.jump.is_some(), "a jump stays unconfirmed with time");
    }

    #[test]
    fn a_jump_ends_when_the_clock_is_set_back_or_confirmed() {
        for confirmed in [false, true] {
            let mut observed = Observed::default();
            observed.observe(at(0), elapsed(0));
            observed.observe(at(9_000), elapsed(1));
            assert!(observed.jump.is_some());
            match confirmed {
                true => observed.confirm(at(9_001), elapsed(2)),
                false => observed.observe(at(2), elapsed(2)),
            }
            assert_eq!(observed.jump, None);
            let (then, _) = observed.anchor.unwrap();
            observed.observe(then.after(elapsed(5)), elapsed(7));
            assert_eq!(observed.jump, None, "from here on both clocks agree");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_has_not_jumped() {
        let mut observed = Observed::default();
        observed.observe(at(5_000), elapsed(0));
        observed.observe(at(1), elapsed(1));
        assert_eq!(observed.jump, None);
    }
}
