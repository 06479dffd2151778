//! Notices that the machine's clock jumped forward, so that nothing ends for good only because of that.
//!
//! The wall clock is compared with the monotonic clock, and at a start with the store's last time. While a jump is not confirmed,
//! retention, ended contracts and the deadlines of approvals wait. Invariant: a clock without a monotonic part is never found to have
//! jumped.

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

/// A forward jump of the clock that is larger waits for a confirmation, while a process runs: one hour.
pub const LARGEST_JUMP: Duration = Duration::from_secs(3_600);
/// A store whose last time is further back waits for a confirmation at a start: seven days.
pub const LONGEST_DOWNTIME: Duration = Duration::from_secs(7 * 86_400);

/// A forward jump of the clock that no operator has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockJump {
    /// What the time was to be.
    pub from: Timestamp,
    /// What the clock showed.
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

/// `at` in UTC, as RFC 3339.
fn shown(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(chrono::DateTime::<chrono::Utc>::from_timestamp_millis);
    at.map(|at| at.to_rfc3339()).unwrap_or_default()
}

/// What was seen of the clocks.
#[derive(Debug, Default)]
struct Observed {
    /// The wall clock and the monotonic clock, when they agreed last.
    anchor: Option<(Timestamp, Duration)>,
    jump: Option<ClockJump>,
    /// Whether the jump is in the store by this process.
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
            // The clock was set back: what had jumped is right again.
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

/// The clocks of one engine.
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
    /// Returns the jump of the clock that waits for a confirmation, as the clocks show now.
    #[must_use]
    pub fn clock_jump(&self) -> Option<ClockJump> {
        let monotonic = self.inner.clock.monotonic()?;
        let mut observed = self.inner.clock_guard.observed();
        observed.observe(self.inner.clock.now(), monotonic);
        observed.jump
    }

    /// Compares the clock with the store's last time. Called once, before anything that waits for a confirmation.
    ///
    /// # Errors
    /// The store's.
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

    /// Has the store say of a jump what this process saw, and takes over a confirmation that another process was given.
    ///
    /// # Errors
    /// The store's.
    pub async fn watch_clock(&self) -> Result<(), Error> {
        let Some(monotonic) = self.inner.clock.monotonic() else { return Ok(()) };
        let (jump, is_stored) = (self.clock_jump(), self.inner.clock_guard.observed().is_stored);
        if jump.is_none() && !is_stored {
            return Ok(());
        }
        let stored = self.transact(false, |view| view.get::<ClockJump>(ClockJump::ID)).await?;
        match (jump, stored) {
            // A server with a wrong clock learns nothing from one whose clock is right.
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
                    "the clock jumped forward, or no server ran in between: retention, ended contracts and deadlines of approvals wait; if the clock is right: `tenure store confirm-clock --reason TEXT`"
                );
            }
            (Some(_), Some(_)) => self.inner.clock_guard.observed().is_stored = true,
            (None, _) => {
                self.transact(true, |view| view.delete::<ClockJump>(ClockJump::ID)).await?;
                self.inner.clock_guard.observed().is_stored = false;
                tracing::warn!("the clock was set back; nothing waits for a confirmation any more");
            }
        }
        Ok(())
    }

    /// Takes the clock as right from now on. Returns the jump that waited for it.
    ///
    /// # Errors
    /// The store's.
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

    /// Sets whether this engine leases no work, such as while its clock is not that of the database.
    pub fn refuse_work(&self, refuses: bool) {
        self.inner.clock_guard.refuses_work.store(refuses, Ordering::Release);
    }

    /// Returns true if this engine leases no work.
    #[must_use]
    pub fn refuses_work(&self) -> bool {
        self.inner.clock_guard.refuses_work.load(Ordering::Acquire)
    }

    /// Refuses a vote after a deadline that passed only by a jump: taken, it would find the approval expired for good.
    pub(crate) async fn check_deadline(&self, id: ExecutionId, event: &Event) -> Result<(), Error> {
        if !matches!(event, Event::Voted { .. }) || self.clock_jump().is_none() {
            return Ok(());
        }
        let deadline = self.approval(id).await?.and_then(|case| case.deadline);
        if deadline.is_none_or(|deadline| deadline > self.inner.clock.now()) {
            return Ok(());
        }
        let why = "the clock jumped past the deadline of this approval, and no operator has confirmed it yet";
        Err(Error::Undecided(ActionError::transient("clock.unconfirmed", why)))
    }

    /// Returns true if the deadline that `lease` is about is that of an approval, and the clock waits for a confirmation. The task is
    /// then handed back unchanged after a while, so that it is due at once when the clock is right.
    pub(crate) async fn put_off_deadline(&self, lease: &Lease) -> Result<bool, Error> {
        if self.clock_jump().is_none() || self.approval(lease.task.id.execution).await?.is_none() {
            return Ok(false);
        }
        let (engine, task, epoch, due) = (self.clone(), lease.task.id, lease.epoch, lease.task.due);
        let pause = (self.inner.options.lease / 3).min(MINUTE);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            if let Err(error) = engine.hand_back(task, epoch, due, 0).await {
                tracing::debug!(%error, "a deadline that waits could not be handed back; its lease will lapse");
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
        assert_eq!(observed.jump, None, "time that passed on both is no jump");
        observed.observe(at(302), elapsed(301));
        assert_eq!(observed.jump, None, "an hour is within the bound");

        observed.observe(at(10_000), elapsed(302));
        assert_eq!(observed.jump, Some(ClockJump { from: at(303), to: at(10_000) }));
        observed.observe(at(10_500), elapsed(802));
        assert!(observed.jump.is_some(), "waiting confirms nothing");
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
