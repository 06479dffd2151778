//! Wakes the dispatcher when a task becomes due before its next check.

use std::sync::atomic::{AtomicU64, Ordering};
use store::Timestamp;
use tokio::sync::Notify;

/// Wakes the dispatcher.
#[derive(Debug)]
pub(crate) struct Wakeup {
    signal: Notify,
    /// The time of the dispatcher's next check. During a check, every task counts as earlier.
    until: AtomicU64,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { signal: Notify::new(), until: AtomicU64::new(u64::MAX) }
    }
}

impl Wakeup {
    /// Wakes the dispatcher unconditionally. The wakeup is stored if the dispatcher is not waiting yet.
    pub(crate) fn notify(&self) {
        self.signal.notify_one();
    }

    /// Wakes the dispatcher if one of these moments is before its next check.
    pub(crate) fn notify_before(&self, moments: impl IntoIterator<Item = Timestamp>) {
        let until = self.until.load(Ordering::SeqCst);
        if moments.into_iter().any(|at| at.0 < until) {
            self.notify();
        }
    }

    /// Makes every new task wake the dispatcher until [`Wakeup::sleep_until`]: its current check may miss them.
    pub(crate) fn start_looking(&self) {
        self.until.store(u64::MAX, Ordering::SeqCst);
    }

    /// Records that the dispatcher has found nothing due before `until`.
    pub(crate) fn sleep_until(&self, until: Timestamp) {
        self.until.store(until.0, Ordering::SeqCst);
    }

    /// Waits for the next wakeup, or returns at once after a stored one.
    pub(crate) async fn notified(&self) {
        self.signal.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn was_notified(due: &Wakeup) -> bool {
        tokio::select! {
            biased;
            () = due.notified() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn a_task_due_before_the_next_check_or_during_one_wakes_the_dispatcher() {
        let due = Wakeup::default();
        due.notify_before([Timestamp(900)]);
        assert!(was_notified(&due).await, "no check has run yet");
        due.start_looking();
        due.notify_before([Timestamp(900)]);
        due.sleep_until(Timestamp(500));
        assert!(was_notified(&due).await, "it arrived during a check");

        due.notify_before([Timestamp(900), Timestamp(500)]);
        due.notify_before([]);
        assert!(!was_notified(&due).await);
        due.notify_before([Timestamp(900), Timestamp(499)]);
        assert!(was_notified(&due).await);
    }
}
